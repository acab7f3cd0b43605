/** What one prefill rank writes to one decode rank when their tensor-parallel sizes may differ. */

export interface SenderPair {
  readonly localTpRank: number;
  readonly localTpSize: number;
  readonly remoteTpRank: number;
  readonly remoteTpSize: number;
  /** Bytes of a block that are copied, on each side. */
  readonly localBytes: number;
  readonly remoteBytes: number;
  /** Several prefill ranks hold the same bytes (MLA, or fewer KV heads than ranks). */
  readonly localReplicated: boolean;
  /** KV heads of the whole model; null when the cache has none that could be cut. */
  readonly kvHeads: number | null;
}

export interface SenderPlan {
  /** Of ranks that hold the same bytes only one writes. */
  readonly sends: boolean;
  /** Byte of the block on each side at which the copy begins. */
  readonly localOffset: number;
  readonly remoteOffset: number;
  readonly bytes: number;
}

/**
 * How many ranks of one side face one of the other: from 1 on when the prefiller has at least as many (that many write to one
 * decode rank), below 0 when one prefill rank writes to as many. null: neither size divides the other, so they cannot be paired.
 */
export function tpRatio(localTpSize: number, remoteTpSize: number): number | null {
  const [more, less] = [Math.max(localTpSize, remoteTpSize), Math.min(localTpSize, remoteTpSize)];
  if (more % less !== 0) return null;
  return localTpSize >= remoteTpSize ? more / less : -more / less;
}

/** null: the two sizes cannot be paired. */
export function planSender(pair: SenderPair): SenderPlan | null {
  const { localTpRank, localTpSize, remoteTpRank, remoteTpSize, localBytes, kvHeads } = pair;
  const ratio = tpRatio(localTpSize, remoteTpSize);
  if (ratio === null) return null;
  const whole = { sends: true, localOffset: 0, remoteOffset: 0, bytes: localBytes };
  if (ratio === 1) return whole;
  if (kvHeads !== null && pair.localReplicated !== remoteTpSize > kvHeads)
    return oneHead(pair, kvHeads);
  if (pair.localReplicated)
    return ratio > 0 ? { ...whole, sends: localTpRank % ratio === 0 } : whole;
  if (ratio > 0) return { ...whole, remoteOffset: (localTpRank % ratio) * localBytes };
  const localOffset = (remoteTpRank % -ratio) * pair.remoteBytes;
  return { ...whole, localOffset, bytes: pair.remoteBytes };
}

/** Only one of the sides has ranks with equal heads: they meet in a single head. */
function oneHead(pair: SenderPair, kvHeads: number): SenderPlan {
  const headsPerRank = Math.max(Math.floor(kvHeads / pair.localTpSize), 1);
  const equalRanks = Math.max(Math.floor(pair.localTpSize / kvHeads), 1);
  const localHead = Math.floor((pair.localTpRank * kvHeads) / pair.localTpSize);
  const remoteHead = Math.floor((pair.remoteTpRank * kvHeads) / pair.remoteTpSize);
  const bytes = Math.floor(pair.localBytes / headsPerRank);
  return {
    sends: pair.localTpRank % equalRanks === 0,
    localOffset: Math.max(remoteHead - localHead, 0) * bytes,
    remoteOffset: Math.max(localHead - remoteHead, 0) * bytes,
    bytes,
  };
}
