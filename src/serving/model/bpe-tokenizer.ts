import { readFile } from "node:fs/promises";
import { MooncakeKvError } from "../../errors.ts";
import { ChatPrompt } from "./chat-prompt.ts";
import type { TokenizerFile } from "./gguf-tokenizer.ts";
import { TokenBytes } from "./token-bytes.ts";
import type { StreamingDecoder } from "./token-bytes.ts";
import type { ChatMessage, ModelTokenizer } from "./tokenizer.ts";
import { tokenBytesOf } from "./vocabulary-bytes.ts";
import { VocabularyEncoder } from "./vocabulary-encoder.ts";

/**
 * Loads the vocabulary file that a conversion wrote. `nowMs`: Unix time for templates that write a date. Throws UNSUPPORTED or
 * MODEL_INVALID when the chat template cannot be used.
 */
export async function loadBpeTokenizer(path: string, nowMs: () => number): Promise<ModelTokenizer> {
  const file = JSON.parse(await readFile(path, "utf8")) as TokenizerFile;
  return new BpeTokenizer(file, nowMs);
}

/** Byte-pair encoding with the vocabulary and chat template of a GGUF file. */
class BpeTokenizer implements ModelTokenizer {
  readonly vocabSize: number;
  readonly endTokenIds: readonly number[];
  private readonly file: TokenizerFile;
  private readonly encoder: VocabularyEncoder;
  private readonly bytes: TokenBytes;
  private readonly chat: ChatPrompt | null;

  constructor(file: TokenizerFile, nowMs: () => number) {
    this.file = file;
    this.vocabSize = file.vocabularySize;
    this.endTokenIds = file.endTokenIds;
    this.encoder = new VocabularyEncoder(file);
    this.bytes = new TokenBytes(tokenBytesOf(file));
    this.chat = chatPromptOf(file, nowMs);
  }

  encode(text: string): Int32Array {
    const ids = this.encoder.encode(text);
    const { addBeginToken, beginTokenId, addEndToken, endTokenId } = this.file;
    // Even where the text writes it out itself: vLLM's tokenizers do so too.
    if (addBeginToken && beginTokenId !== null) ids.unshift(beginTokenId);
    if (addEndToken && endTokenId !== null) ids.push(endTokenId);
    return Int32Array.from(ids);
  }

  encodeChat(messages: readonly ChatMessage[]): Int32Array {
    if (this.chat !== null) return Int32Array.from(this.encoder.encode(this.chat.render(messages)));
    throw new MooncakeKvError({
      code: "UNSUPPORTED",
      field: this.file.origin,
      problem: "the model has no chat template",
      remedy: "Use plain completions, or give a model made for chat.",
    });
  }

  decode(tokenIds: ArrayLike<number>): string {
    return this.bytes.decode(tokenIds);
  }

  streamingDecoder(): StreamingDecoder {
    return this.bytes.streamingDecoder();
  }

  tokenBytes(tokenId: number): Uint8Array {
    return this.bytes.of(tokenId);
  }
}

/** Null when the file has no template. */
export function chatPromptOf(
  file: Pick<TokenizerFile, "chatTemplate" | "tokens" | "beginTokenId" | "endTokenId" | "origin">,
  nowMs: () => number,
): ChatPrompt | null {
  if (file.chatTemplate === null) return null;
  const textOf = (tokenId: number | null): string | null =>
    tokenId === null ? null : (file.tokens[tokenId] ?? null);
  const tokens = { begin: textOf(file.beginTokenId), end: textOf(file.endTokenId) };
  return new ChatPrompt(file.chatTemplate, tokens, file.origin, nowMs);
}
