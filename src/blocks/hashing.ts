/** How block hashing reads the shared tables. */

/** Encoding of a block's (parent, tokens, extra), and so of the extra elements in the token arena. pickle: protocol 5. */
export type BlockEncoding = "cbor" | "pickle";

/**
 * Hash blocks of a request's first `tokens` tokens: whole blocks, and (with look-ahead) only those after which the look-ahead
 * tokens exist. The one place that says how far hashing may go.
 */
export function hashableBlocks(
  tokens: number,
  hashBlockSize: number,
  lookaheadTokens: number,
): number {
  return Math.max(0, Math.floor((tokens - lookaheadTokens) / hashBlockSize));
}
