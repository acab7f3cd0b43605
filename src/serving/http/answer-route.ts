import type { FastifyReply } from "fastify";
import type { Log } from "../../actors/step.ts";
import type { FrontEnd } from "../front-end.ts";
import { AnswerFormat, type AnswerFormatKind } from "./answer-format.ts";
import type { AnswerRequest, ServedModel } from "./answer-request.ts";
import type { AnswerPiece, AnswerToken } from "./answer-text.ts";
import { onClientGone } from "./client-sockets.ts";
import { EventStream } from "./event-stream.ts";
import { startGeneration, type GenerationResult } from "./generation.ts";

export interface AnswerRoutePorts {
  readonly frontEnd: FrontEnd;
  readonly model: ServedModel;
  /** Uniform in [0, 1): ids and seeds. */
  readonly random: () => number;
  /** Unix time in milliseconds. */
  readonly wallClockMs: () => number;
  readonly log: Log;
}

/**
 * Answers a checked request, whole or as a stream. A client that leaves aborts it. Throws ApiError before any byte is sent; an
 * answer that fails later ends with an event that says so, as vLLM's do.
 */
export async function answer(
  ports: AnswerRoutePorts,
  kind: AnswerFormatKind,
  asked: AnswerRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { model } = ports;
  const { socket } = reply.request.raw;
  // It may have left while its prompt was tokenized.
  if (socket.destroyed) return reply.hijack();
  const id = kind.idPrefix + randomHex(ports.random);
  const created = Math.floor(ports.wallClockMs() / 1000);
  const head = { id, created, model: model.modelName };
  const format = new AnswerFormat(kind, head, asked, model.tokenizer);
  const sink = asked.stream
    ? new StreamedAnswer(format, asked, reply)
    : new WholeAnswer(format, reply);
  const generation = startGeneration(ports.frontEnd, model.tokenizer, id, asked, (piece) =>
    sink.piece(piece),
  );
  const off = onClientGone(socket, () => generation.abort());
  const result = await generation.finished;
  off();
  // Nobody is there to read it.
  if (socket.destroyed) return reply.hijack();
  if (result.failure !== null) {
    const { status, code } = result.failure;
    ports.log.warn({ request: id, status, code }, "an answer could not be finished");
  }
  return sink.finish(result);
}

interface AnswerSink {
  piece(piece: AnswerPiece): void;
  finish(result: GenerationResult): FastifyReply;
}

class WholeAnswer implements AnswerSink {
  readonly #format: AnswerFormat;
  readonly #reply: FastifyReply;
  readonly #tokens: AnswerToken[] = [];
  #text = "";

  constructor(format: AnswerFormat, reply: FastifyReply) {
    this.#format = format;
    this.#reply = reply;
  }

  piece({ text, tokens }: AnswerPiece): void {
    this.#text += text;
    this.#tokens.push(...tokens);
  }

  finish(result: GenerationResult): FastifyReply {
    if (result.failure !== null) throw result.failure;
    return this.#reply.send(this.#format.body({ text: this.#text, tokens: this.#tokens }, result));
  }
}

/** Nothing is sent before the first piece, so that a request that fails early still gets a status that says so. */
class StreamedAnswer implements AnswerSink {
  readonly #format: AnswerFormat;
  readonly #asked: AnswerRequest;
  readonly #reply: FastifyReply;
  #events: EventStream | undefined;

  constructor(format: AnswerFormat, asked: AnswerRequest, reply: FastifyReply) {
    this.#format = format;
    this.#asked = asked;
    this.#reply = reply;
  }

  piece(piece: AnswerPiece): void {
    this.#open().send(this.#format.chunk(piece));
  }

  finish(result: GenerationResult): FastifyReply {
    if (result.failure !== null && this.#events === undefined) throw result.failure;
    const events = this.#open();
    if (result.failure !== null) {
      events.send(result.failure.body());
    } else {
      events.send(this.#format.lastChunk(result));
      if (this.#asked.includeUsage) events.send(this.#format.usageChunk(result));
    }
    events.end();
    return this.#reply;
  }

  #open(): EventStream {
    if (this.#events !== undefined) return this.#events;
    this.#reply.hijack();
    this.#events = new EventStream(this.#reply.raw, this.#reply.getHeaders());
    const first = this.#format.firstChunk();
    if (first !== null) this.#events.send(first);
    return this.#events;
  }
}

/** 96 bits as hex digits. */
function randomHex(random: () => number): string {
  return Array.from({ length: 3 }, () =>
    Math.floor(random() * 0x1_0000_0000)
      .toString(16)
      .padStart(8, "0"),
  ).join("");
}
