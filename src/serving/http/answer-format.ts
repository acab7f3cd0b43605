import type { AnswerRequest } from "./answer-request.ts";
import type { AnswerPiece } from "./answer-text.ts";
import type { GenerationResult } from "./generation.ts";
import type { ModelTokenizer } from "../model/tokenizer.ts";

/** What all bodies of one answer share. */
export interface AnswerHead {
  readonly id: string;
  /** Unix time in seconds. */
  readonly created: number;
  readonly model: string;
}

/** How one of the two endpoints writes an answer; made anew for each answer. */
export interface AnswerFormat {
  /** The whole answer in one body. */
  body(answer: AnswerPiece, result: GenerationResult): object;
  /** Chunk before the first piece, or null. */
  firstChunk(): object | null;
  chunk(piece: AnswerPiece): object;
  lastChunk(result: GenerationResult): object;
  /** Sent after the last chunk when `stream_options.include_usage` asks for it. */
  usageChunk(result: GenerationResult): object;
}

export interface AnswerFormatKind {
  readonly idPrefix: string;
  create(head: AnswerHead, asked: AnswerRequest, tokenizer: ModelTokenizer): AnswerFormat;
}

/** The field `x_mooncake_kv`, when the request asks for it. */
export function extensionField(asked: AnswerRequest, result: GenerationResult): object {
  return asked.extension ? { x_mooncake_kv: result.extension } : {};
}

/** With `include_usage` every chunk has the field, null in all but the last. */
export function noUsageField(asked: AnswerRequest): object {
  return asked.includeUsage ? { usage: null } : {};
}
