/**
 * Tokens that may be loaded when the first `leadingChunks` blocks of the request are there under all prefixes (so for all
 * ranks). vLLM's rule for full attention: whole blocks; a hit on all `tokens` is derived again below them, so that the last
 * token is computed for sampling. Equals `prefixHit` of keys/prefix-hit.ts, from a count instead of the keys.
 */
export function hitTokens(leadingChunks: number, tokens: number, blockSize: number): number {
  const hit = leadingChunks * blockSize;
  if (hit < tokens) return hit;
  return tokens <= 0 ? 0 : Math.floor((tokens - 1) / blockSize) * blockSize;
}
