import type { ModelTokenizer } from "../model/tokenizer.ts";
import type { AnswerRequest } from "./answer-request.ts";
import type { AnswerPiece } from "./answer-text.ts";
import type { CompleteResult, FinishReason } from "./generation.ts";

/** What all bodies of one answer share. */
export interface AnswerHead {
  readonly id: string;
  /** Unix time in seconds. */
  readonly created: number;
  readonly model: string;
}

/** What the two endpoints write in their own way. */
export interface AnswerFormatKind {
  readonly idPrefix: string;
  /** The field `object` of a whole answer, and of a chunk. */
  readonly objects: { readonly whole: string; readonly chunk: string };
  createChoices(asked: AnswerRequest, tokenizer: ModelTokenizer): AnswerChoices;
}

/** How an endpoint writes the one choice that each body of an answer has; made anew for each answer. */
export interface AnswerChoices {
  whole(answer: AnswerPiece, finishReason: FinishReason): object;
  /** Of a chunk before the first piece, where the endpoint has one; else null. */
  first(): object | null;
  piece(piece: AnswerPiece): object;
  last(finishReason: FinishReason): object;
}

/** Bodies of one answer, each around its choice; made anew for each answer. */
export class AnswerFormat {
  readonly #kind: AnswerFormatKind;
  readonly #head: AnswerHead;
  readonly #asked: AnswerRequest;
  readonly #choices: AnswerChoices;

  constructor(
    kind: AnswerFormatKind,
    head: AnswerHead,
    asked: AnswerRequest,
    tokenizer: ModelTokenizer,
  ) {
    this.#kind = kind;
    this.#head = head;
    this.#asked = asked;
    this.#choices = kind.createChoices(asked, tokenizer);
  }

  /** The whole answer in one body. */
  body(answer: AnswerPiece, result: CompleteResult): object {
    return {
      ...this.#start(this.#kind.objects.whole),
      choices: [this.#choices.whole(answer, result.finishReason)],
      usage: result.usage,
      ...this.#extension(result),
    };
  }

  /** Chunk before the first piece, or null. */
  firstChunk(): object | null {
    const choice = this.#choices.first();
    return choice === null ? null : this.#chunk(choice);
  }

  chunk(piece: AnswerPiece): object {
    return this.#chunk(this.#choices.piece(piece));
  }

  lastChunk(result: CompleteResult): object {
    return {
      ...this.#chunk(this.#choices.last(result.finishReason)),
      ...this.#extension(result),
    };
  }

  /** Sent after the last chunk when `stream_options.include_usage` asks for it. */
  usageChunk(result: CompleteResult): object {
    return { ...this.#start(this.#kind.objects.chunk), choices: [], usage: result.usage };
  }

  #start(object: string): object {
    const { id, created, model } = this.#head;
    return { id, object, created, model };
  }

  /** With `include_usage` every chunk has the field, null in all but the last. */
  #chunk(choice: object): object {
    return {
      ...this.#start(this.#kind.objects.chunk),
      choices: [choice],
      ...(this.#asked.includeUsage ? { usage: null } : {}),
    };
  }

  /** The field `x_mooncake_kv`, when the request asks for it. */
  #extension(result: CompleteResult): object {
    return this.#asked.extension ? { x_mooncake_kv: result.extension } : {};
  }
}
