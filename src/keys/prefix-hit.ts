/**
 * From "which keys exist" to "how many leading tokens can be loaded", for full-attention groups (any attention that needs
 * every block before the hit). vLLM's rule: a block is there when all its rank namespaces are; the hit is the longest prefix
 * of whole blocks; a hit on the whole prompt is derived again below it, so that the last token is computed for sampling.
 */

export interface PrefixQuestion {
  /** Tokens of the request that may be loaded. */
  readonly tokens: number;
  /** Block hashes at hand, each covering `hashBlockSize` tokens. */
  readonly hashes: number;
  readonly hashBlockSize: number;
  /** Least tokens that are whole blocks in every group (`schedulerBlockSize`). */
  readonly alignmentTokens: number;
  readonly groups: readonly PrefixGroup[];
  /** A drafter needs the last block's computation: drop it from every hit. */
  readonly dropLastBlock?: boolean;
}

export interface PrefixGroup {
  /** Tokens of one block (`groupSpanTokens`), a multiple of the hash block size. */
  readonly spanTokens: number;
  /** Number of lookup prefixes: that many keys in a row belong to one block. */
  readonly prefixes: number;
}

/** Chunks of the group that a lookup asks for. The chunk's hash is hash number `lastHashOfChunk` of the request. */
export function lookupChunks(question: PrefixQuestion, group: PrefixGroup): number {
  const aligned = alignDown(question.tokens, question.alignmentTokens);
  const hashed = Math.floor((question.hashes * question.hashBlockSize) / group.spanTokens);
  return Math.min(hashed, Math.ceil(aligned / group.spanTokens));
}

/** A chunk is named by the hash of its last hash block, which covers everything before it. */
export function lastHashOfChunk(chunk: number, spanTokens: number, hashBlockSize: number): number {
  return ((chunk + 1) * spanTokens) / hashBlockSize - 1;
}

/** Keys of the whole lookup, in this order: groups, their chunks, their prefixes. */
export function lookupKeyCount(question: PrefixQuestion): number {
  let keys = 0;
  for (const group of question.groups) keys += lookupChunks(question, group) * group.prefixes;
  return keys;
}

/**
 * Tokens that are there. `exists[i]` is 1 when key i of the lookup exists; anything else, error codes included, counts as
 * absent. Allocates nothing.
 */
export function prefixHit(exists: ArrayLike<number>, question: PrefixQuestion): number {
  let hit = alignDown(question.tokens, question.alignmentTokens);
  let key = 0;
  for (const group of question.groups) {
    const chunks = lookupChunks(question, group);
    let leading = 0;
    while (leading < chunks && allPresent(exists, key + leading * group.prefixes, group.prefixes))
      leading++;
    hit = Math.min(hit, leading * group.spanTokens);
    key += chunks * group.prefixes;
  }
  return settledHit(hit, question.tokens, question.alignmentTokens, question.dropLastBlock);
}

/**
 * The hit when the first `leadingTokens` tokens are there in every group: whole chunks; all of `tokens` is derived again below
 * them, so that the last token is computed. What the lookup actor knows once it has found the first absent key.
 */
export function settledHit(
  leadingTokens: number,
  tokens: number,
  alignmentTokens: number,
  dropLastBlock = false,
): number {
  const settle = (leading: number): number => {
    const aligned = alignDown(leading, alignmentTokens);
    return dropLastBlock ? Math.max(0, aligned - alignmentTokens) : aligned;
  };
  const hit = settle(leadingTokens);
  return hit < tokens ? hit : settle(tokens - 1);
}

function allPresent(exists: ArrayLike<number>, from: number, count: number): boolean {
  for (let index = from; index < from + count; index++) {
    if (exists[index] !== 1) return false;
  }
  return true;
}

function alignDown(tokens: number, alignment: number): number {
  return tokens <= 0 ? 0 : tokens - (tokens % alignment);
}
