import { loadBpeTokenizer } from "./bpe-tokenizer.ts";
import { ByteTokenizer } from "./byte-tokenizer.ts";
import type { PreparedModel } from "./prepared-model.ts";
import type { StreamingDecoder } from "./token-bytes.ts";

export interface ChatMessage {
  readonly role: string;
  /** A text, or the texts of its parts. */
  readonly content: string | readonly string[];
  readonly name?: string;
}

/** Text to token ids and back. Belongs to the thread that loaded it; every thread may load its own. */
export interface ModelTokenizer {
  readonly vocabSize: number;
  /** Tokens that end an answer. */
  readonly endTokenIds: readonly number[];
  /** Ids of a plain prompt; with the model's begin token first where the model wants one, whatever the text begins with. */
  encode(text: string): Int32Array;
  /**
   * Ids of a conversation by the model's chat template, ready for the assistant's answer; a begin token is there when the
   * template writes it. Throws INVALID_VALUE when the template refuses the messages, MODEL_INVALID when it fails over them,
   * UNSUPPORTED when the model has none.
   */
  encodeChat(messages: readonly ChatMessage[]): Int32Array;
  /** Special tokens have no text; bytes that are no UTF-8 become U+FFFD. */
  decode(tokenIds: ArrayLike<number>): string;
  /** Decodes token by token; the pieces joined equal `decode` of all. */
  streamingDecoder(): StreamingDecoder;
  /** Bytes of one token, empty for special and unused ids; a view that must not be changed. */
  tokenBytes(tokenId: number): Uint8Array;
}

/** Loads the tokenizer of a prepared model. `nowMs`: for templates that write a date. Throws what loadBpeTokenizer throws. */
export async function loadTokenizer(
  prepared: PreparedModel,
  nowMs: () => number = () => Date.now(),
): Promise<ModelTokenizer> {
  if (prepared.tokenizer.kind === "bytes") return new ByteTokenizer(prepared.config.vocabularySize);
  return loadBpeTokenizer(prepared.tokenizer.path, nowMs);
}
