/** The bytes that each token stands for, in one flat array, and decoding by them. */
export class TokenBytes {
  readonly tokenCount: number;
  private readonly bytes: Uint8Array;
  /** `tokenCount + 1` entries: token t is bytes [starts[t], starts[t + 1]). */
  private readonly starts: Int32Array;

  constructor(tokens: readonly Uint8Array[]) {
    this.tokenCount = tokens.length;
    this.starts = new Int32Array(tokens.length + 1);
    tokens.forEach((token, id) => {
      this.starts[id + 1] = this.starts[id]! + token.byteLength;
    });
    this.bytes = new Uint8Array(this.starts[tokens.length]!);
    tokens.forEach((token, id) => this.bytes.set(token, this.starts[id]));
  }

  /** A view; empty for ids outside the vocabulary. */
  of(tokenId: number): Uint8Array {
    return this.bytes.subarray(this.starts[tokenId] ?? 0, this.starts[tokenId + 1] ?? 0);
  }

  decode(tokenIds: ArrayLike<number>): string {
    const decoder = this.streamingDecoder();
    let text = "";
    for (let index = 0; index < tokenIds.length; index++) text += decoder.push(tokenIds[index]!);
    return text + decoder.flush();
  }

  streamingDecoder(): StreamingDecoder {
    return new StreamingDecoder(this);
  }
}

/**
 * Turns tokens into text as they come. A character whose bytes spread over several tokens comes out with its last byte, so no
 * piece ever holds half a character; bytes that can never become one come out as U+FFFD.
 */
export class StreamingDecoder {
  private readonly tokens: TokenBytes;
  private readonly decoder = new TextDecoder("utf-8", { ignoreBOM: true });

  constructor(tokens: TokenBytes) {
    this.tokens = tokens;
  }

  /** Text that is complete now; may be empty. */
  push(tokenId: number): string {
    return this.decoder.decode(this.tokens.of(tokenId), { stream: true });
  }

  /** Ends the text: bytes still waiting for the rest of their character come out as U+FFFD. */
  flush(): string {
    return this.decoder.decode();
  }
}
