/**
 * KV events as plain data: what a cache tells its listeners (routers, indexers) about its blocks. Names follow vLLM's structures,
 * whose fields stand in `wire-fields.ts`.
 */

/** The low 64 bits of a block hash (vLLM's default), or the whole digest. */
export type ExternalBlockHash = bigint | Uint8Array;

/** Where blocks lie, as vLLM names it. Its store connector says "cpu" for the pool, in small letters. */
export const MEDIUM_GPU = "GPU";
export const MEDIUM_POOL = "cpu";

export interface BlockStored {
  readonly type: "BlockStored";
  readonly blockHashes: readonly ExternalBlockHash[];
  /** Hash of the block before the first one; null at the start of a prompt. */
  readonly parentBlockHash: ExternalBlockHash | null;
  /** Tokens of all blocks of the event in order; empty when the publisher did not know them any more. */
  readonly tokenIds: readonly number[];
  readonly blockSize: number;
  readonly loraId: number | null;
  readonly medium: string | null;
  readonly loraName: string | null;
  /** For each block what its hash covers besides tokens, or null. */
  readonly extraKeys?: readonly (readonly unknown[] | null)[] | null;
  readonly groupIndex?: number | null;
  readonly kvCacheSpecKind?: string | null;
  readonly kvCacheSpecSlidingWindow?: number | null;
  readonly locality?: string | null;
  readonly ownership?: string | null;
  readonly sessionId?: string | null;
  readonly lookaheadTokenIds?: readonly (readonly number[])[] | null;
}

export interface BlockRemoved {
  readonly type: "BlockRemoved";
  readonly blockHashes: readonly ExternalBlockHash[];
  readonly medium: string | null;
  readonly groupIndex?: number | null;
  readonly locality?: string | null;
  readonly ownership?: string | null;
}

/** The cache forgot every block. */
export interface AllBlocksCleared {
  readonly type: "AllBlocksCleared";
}

export type KvEvent = BlockStored | BlockRemoved | AllBlocksCleared;

export interface KvEventBatch {
  /** Seconds since 1970. */
  readonly timestampSeconds: number;
  readonly events: readonly KvEvent[];
  readonly dataParallelRank: number | null;
}

/**
 * What of a digest goes into events: its low 64 bits as a number, or, with `asInteger` false, a copy of it
 * (vLLM: VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES).
 */
export function externalBlockHash(digest: Uint8Array, asInteger: boolean): ExternalBlockHash {
  if (!asInteger) return digest.slice();
  const view = new DataView(digest.buffer, digest.byteOffset, digest.byteLength);
  return view.getBigUint64(digest.byteLength - 8);
}

/** A text that is equal exactly for equal hashes: for maps keyed by hash. The same digest differs between the two forms. */
export function blockHashText(hash: ExternalBlockHash): string {
  return typeof hash === "bigint"
    ? hash.toString(16).padStart(16, "0")
    : Buffer.from(hash.buffer, hash.byteOffset, hash.byteLength).toString("hex");
}
