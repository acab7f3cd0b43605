/** KV events of a save: one "block stored" for each block that the pool has now and had not before. */
import type { HitRules } from "../../keys/coordinator/hit-rules.ts";
import type { SaveEnd } from "./save-job.ts";

export interface BlockStoredEvent {
  /** Number of the request's hash that names the block, and of the one before the block; null at the start. */
  readonly hash: number;
  readonly parentHash: number | null;
  /** The block's tokens; empty when they are not at hand. */
  readonly tokens: readonly number[];
  readonly blockSize: number;
  readonly group: number;
}

/** vLLM's name for where the pool keeps blocks. */
export const EVENT_MEDIUM = "cpu";

export function storedEvents(rules: HitRules, end: SaveEnd): BlockStoredEvent[] {
  const { hashBlockSize } = rules;
  return end.stored.map(({ group, hash }) => {
    const blockSize = rules.groups[group]?.spanTokens ?? rules.blockTokens;
    const endToken = (hash + 1) * hashBlockSize;
    const startToken = endToken - blockSize;
    return {
      hash,
      parentHash: startToken > 0 ? startToken / hashBlockSize - 1 : null,
      tokens: tokensOf(end.eventTokens, startToken, endToken),
      blockSize,
      group,
    };
  });
}

/** The lowest 64 bits of a digest, as vLLM publishes hashes by default. */
export function eventHash(digest: Uint8Array): bigint {
  const view = new DataView(digest.buffer, digest.byteOffset, digest.byteLength);
  return view.getBigUint64(digest.byteLength - 8);
}

function tokensOf(known: SaveEnd["eventTokens"], from: number, to: number): readonly number[] {
  if (known === null || known.start > from || to > known.start + known.tokens.length) return [];
  return known.tokens.slice(from - known.start, to - known.start);
}
