import { TokenBytes } from "./token-bytes.ts";
import type { StreamingDecoder } from "./token-bytes.ts";
import type { ChatMessage, ModelTokenizer } from "./tokenizer.ts";

/** Ids after the 256 bytes. */
export const BYTE_TOKENIZER_SPECIALS = {
  begin: 256,
  end: 257,
  messageStart: 258,
  messageEnd: 259,
} as const;

/**
 * Tokenizer of the generated model: a token for each byte of UTF-8, four special tokens, and unused ids without text.
 *
 * Text never becomes a special token, only the chat template writes them:
 * `<message start>role\ncontent<message end>\n` for each message, then `<message start>assistant\n`.
 */
export class ByteTokenizer implements ModelTokenizer {
  readonly vocabSize: number;
  readonly endTokenIds = [BYTE_TOKENIZER_SPECIALS.end, BYTE_TOKENIZER_SPECIALS.messageEnd];
  private readonly bytes: TokenBytes;
  private readonly encoder = new TextEncoder();

  constructor(vocabSize: number) {
    this.vocabSize = vocabSize;
    this.bytes = new TokenBytes(
      Array.from({ length: vocabSize }, (_, id) =>
        id < 256 ? Uint8Array.of(id) : new Uint8Array(0),
      ),
    );
  }

  encode(text: string): Int32Array {
    const bytes = this.encoder.encode(text);
    const tokenIds = new Int32Array(bytes.length + 1);
    tokenIds[0] = BYTE_TOKENIZER_SPECIALS.begin;
    tokenIds.set(bytes, 1);
    return tokenIds;
  }

  encodeChat(messages: readonly ChatMessage[]): Int32Array {
    const tokenIds: number[] = [BYTE_TOKENIZER_SPECIALS.begin];
    const addText = (text: string): void => {
      for (const byte of this.encoder.encode(text)) tokenIds.push(byte);
    };
    for (const message of messages) {
      tokenIds.push(BYTE_TOKENIZER_SPECIALS.messageStart);
      const { content } = message;
      const role = message.role === "developer" ? "system" : message.role;
      addText(`${role}\n${typeof content === "string" ? content : content.join("\n")}`);
      tokenIds.push(BYTE_TOKENIZER_SPECIALS.messageEnd);
      addText("\n");
    }
    tokenIds.push(BYTE_TOKENIZER_SPECIALS.messageStart);
    addText("assistant\n");
    return Int32Array.from(tokenIds);
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
