import { connect, type Socket } from "node:net";
import { HASH_STRIDE_WORDS } from "../../../blocks/layout.ts";
import { decodeLookupReply, encodeLookupRequest } from "../../../connector/lookup-wire.ts";
import { splitEnvelope, ZmtpConnection } from "../../../connector/zmtp.ts";
import {
  OUTCOME_ENGINE_DOWN,
  OUTCOME_ENGINE_ERROR,
  OUTCOME_HIT,
  OUTCOME_TIMEOUT,
} from "../../messages.ts";
import type { Log, RemoteAnswer, RemoteLookups, RemoteQuestion } from "../../step.ts";

/** Questions on the way at a time: a lookup server answers one after the other. */
const QUESTIONS_MAX = 32;
const LIMITS = { messageBytesMax: 64 * 1024, framesMax: 8 };
const DELIMITER = new Uint8Array(0);

export interface LookupClientOptions {
  /** Path of the server's Unix socket. */
  readonly path: string;
  readonly digestBytes: number;
  /** A question without an answer for so long is a failure, and ends the connection: what it was to bring comes too late. */
  readonly timeoutMs: number;
  readonly nowMs: () => number;
  readonly log: Log;
  /** Called when `poll` has something. */
  readonly wake: () => void;
}

interface Asked {
  readonly question: RemoteQuestion;
  readonly deadlineMs: number;
}

/**
 * Lookups over vLLM's lookup socket (or that of another process of this project): what vLLM's LookupKeyClient is to its scheduler.
 * A DEALER to the server's REP, so that several questions may be on the way; answers come in the order of the questions. A server
 * that is not there is ENGINE_DOWN at once, and is looked for again with the next question.
 */
export class LookupClient implements RemoteLookups {
  readonly #options: LookupClientOptions;
  readonly #answers: RemoteAnswer[] = [];
  /** Asked and not answered, the oldest first; the first `#sent` of them are on the way. */
  #asked: Asked[] = [];
  #sent = 0;
  #socket: Socket | undefined;
  #zmtp: ZmtpConnection | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** The log is told once of a server that is away, not with every question. */
  #away = false;

  constructor(options: LookupClientOptions) {
    this.#options = options;
  }

  room(): number {
    return QUESTIONS_MAX - this.#asked.length;
  }

  ask(question: RemoteQuestion): void {
    this.#asked.push({ question, deadlineMs: this.#options.nowMs() + this.#options.timeoutMs });
    if (this.#socket === undefined) this.#connect();
    this.#send();
    this.#arm();
  }

  poll(): RemoteAnswer | null {
    return this.#answers.shift() ?? null;
  }

  /** Ends the connection; open questions are answered as failures. */
  close(): void {
    this.#drop(OUTCOME_ENGINE_DOWN, null);
  }

  #connect(): void {
    const socket = connect(this.#options.path);
    this.#socket = socket;
    this.#zmtp = new ZmtpConnection(
      "DEALER",
      {
        write: (bytes) => void socket.write(bytes),
        ready: () => this.#send(),
        message: (frames) => this.#receive(frames),
      },
      LIMITS,
    );
    const lost = (problem: string): void => {
      // Of a connection that was given up before, nobody waits for anything.
      if (socket === this.#socket) this.#drop(OUTCOME_ENGINE_DOWN, problem);
    };
    socket.on("data", (bytes) => {
      if (socket !== this.#socket) return;
      try {
        this.#zmtp?.receive(bytes);
      } catch (error) {
        lost(error instanceof Error ? error.message : String(error));
      }
    });
    socket.on("error", (error) => lost(error.message));
    socket.on("close", () => lost("the connection was closed"));
  }

  #send(): void {
    if (this.#zmtp?.ready !== true) return;
    for (; this.#sent < this.#asked.length; this.#sent++) {
      const { tokens, hashes } = this.#asked[this.#sent]!.question;
      const { digestBytes: hashBytes } = this.#options;
      const request = { tokens, hashBytes, hashes: inARow(hashes, hashBytes) };
      this.#zmtp.send([DELIMITER, ...encodeLookupRequest(request)]);
    }
  }

  #receive(frames: readonly Uint8Array[]): void {
    const asked = this.#sent > 0 ? this.#asked.shift() : undefined;
    if (asked === undefined)
      return this.#drop(OUTCOME_ENGINE_ERROR, "an answer to no question came");
    this.#sent--;
    this.#away = false;
    const { record } = asked.question;
    const [body, ...more] = splitEnvelope(frames)?.body ?? [];
    const reply = body === undefined || more.length > 0 ? null : decodeLookupReply(body);
    if (reply === null) {
      this.#options.log.error({ record }, "the lookup server's answer is none");
      this.#answer(record, OUTCOME_ENGINE_ERROR);
    } else this.#answers.push({ record, outcome: OUTCOME_HIT, ...reply });
    this.#arm();
    this.#options.wake();
  }

  /** Ends the connection and everything that waits for it. `problem` null: on purpose. */
  #drop(outcome: number, problem: string | null): void {
    this.#socket?.destroy();
    this.#socket = undefined;
    this.#zmtp = undefined;
    const { path, log, wake } = this.#options;
    const open = this.#asked;
    if (problem !== null && !this.#away && open.length > 0) {
      this.#away = true;
      log.warn({ path, problem, openQuestions: open.length }, "the lookup server does not answer");
    }
    this.#asked = [];
    this.#sent = 0;
    for (const { question } of open) this.#answer(question.record, outcome);
    this.#arm();
    if (open.length > 0) wake();
  }

  #answer(record: number, outcome: number): void {
    this.#answers.push({ record, outcome, hitTokens: 0, tails: [] });
  }

  #arm(): void {
    clearTimeout(this.#timer);
    const [oldest] = this.#asked;
    if (oldest === undefined) return;
    const leftMs = Math.max(0, oldest.deadlineMs - this.#options.nowMs());
    const { timeoutMs } = this.#options;
    this.#timer = setTimeout(
      () => this.#drop(OUTCOME_TIMEOUT, `no answer within ${timeoutMs} ms`),
      leftMs,
    );
    this.#timer.unref();
  }
}

/** Digests without what fills their places in a hash row. */
function inARow(hashes: Int32Array, digestBytes: number): Uint8Array {
  const bytes = new Uint8Array(hashes.buffer, hashes.byteOffset, hashes.byteLength);
  const strideBytes = HASH_STRIDE_WORDS * 4;
  if (digestBytes === strideBytes) return bytes;
  const packed = new Uint8Array((bytes.byteLength / strideBytes) * digestBytes);
  for (let from = 0, to = 0; from < bytes.byteLength; from += strideBytes, to += digestBytes)
    packed.set(bytes.subarray(from, from + digestBytes), to);
  return packed;
}
