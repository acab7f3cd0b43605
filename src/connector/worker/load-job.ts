/**
 * One load on one rank, as vLLM's receiving threads do it: the blocks that the hit needs locally, started at another key on every
 * rank, in batches that fit the staging buffer of a disk tier.
 *
 * Mended: vLLM stops at the first batch with a failure and reports that batch's failed blocks alone, so that later blocks pass for
 * loaded. Here every block from that batch on is reported. A load without keys ends at once, where vLLM never ends.
 */
import { ENTRY_BLOCK, ENTRY_GROUP, ENTRY_WORDS } from "../../blocks/layout.ts";
import { brokenInvariant } from "../../errors.ts";
import type { HitRules } from "../../keys/coordinator/hit-rules.ts";
import { planLoad } from "../../keys/coordinator/transfer-plan.ts";
import type { LoadPlanInput } from "../../keys/coordinator/transfer-plan.ts";
import { getRotation } from "../../keys/pool-keys.ts";
import { splitForStaging } from "../../store/disk-split.ts";
import type { StagingBudget } from "../../store/disk-split.ts";
import { EntryList, rotatedEntries } from "./store-requests.ts";
import type { StoreAnswer, StoreJob } from "./store-requests.ts";

export interface LoadRank {
  readonly rules: HitRules;
  readonly tpRank: number;
  /** Values that one block gives on this rank, per group, and the bytes of each. */
  readonly shardsOfGroup: readonly number[];
  readonly bytesOfGroup: readonly number[];
  /** null: the pool has no disk tier. */
  readonly staging: StagingBudget | null;
}

export interface LoadJob extends LoadPlanInput {
  /** The request's block ids per group. */
  readonly blocks: readonly ArrayLike<number>[];
}

export interface LoadEnd {
  /** All blocks that were to be loaded are. */
  readonly loaded: boolean;
  /** Blocks whose bytes are not to be used, ascending. With several groups ids are ambiguous: then the whole request has failed. */
  readonly invalidBlocks: readonly number[];
}

export function* loadJob(rank: LoadRank, job: LoadJob): StoreJob<LoadEnd> {
  const entries = loadEntries(rank, job);
  const keys = entries.length / ENTRY_WORDS;
  const ends = batchEnds(rank, entries);
  // One value alone does not fit the staging buffer: the engine would fail on it, so nothing is asked.
  if (ends === null) return loadEnd(entries, 0);
  let from = 0;
  for (const end of ends) {
    const batch = entries.subarray(from * ENTRY_WORDS, end * ENTRY_WORDS);
    const answer = yield { operation: "get", entries: batch };
    const failed = failedKeys(answer, end - from);
    if (failed.length > 0) {
      // Of the last batch only what failed is lost.
      const lost = end === keys ? failed.map((key) => from + key) : null;
      return lost === null
        ? loadEnd(entries, from)
        : { loaded: false, invalidBlocks: blocksOf(entries, lost) };
    }
    from = end;
  }
  return { loaded: true, invalidBlocks: [] };
}

function loadEntries(rank: LoadRank, job: LoadJob): Int32Array {
  const list = new EntryList();
  planLoad(rank.rules, job).forEach(({ chunks, hashes }, group) => {
    for (let index = 0; index < chunks.length; index++) {
      const chunk = chunks[index] ?? 0;
      const block = job.blocks[group]?.[chunk];
      if (block === undefined)
        brokenInvariant("a load has no block for a chunk of a group", { group, chunk });
      for (let shard = 0; shard < (rank.shardsOfGroup[group] ?? 1); shard++)
        list.add(group, shard, block, hashes[index] ?? 0);
    }
  });
  return rotatedEntries(list.entries(), getRotation(rank.tpRank, list.count));
}

/** null: a value does not fit. */
function batchEnds(rank: LoadRank, entries: Int32Array): readonly number[] | null {
  const keys = entries.length / ENTRY_WORDS;
  if (keys === 0) return [];
  if (rank.staging === null) return [keys];
  const bytes = Float64Array.from(
    { length: keys },
    (_, key) => rank.bytesOfGroup[entries[key * ENTRY_WORDS + ENTRY_GROUP] ?? 0] ?? 0,
  );
  const split = splitForStaging(bytes, rank.staging);
  return split.kind === "batches" ? split.ends : null;
}

function failedKeys(answer: StoreAnswer, keys: number): number[] {
  const failed: number[] = [];
  for (let key = 0; key < keys; key++)
    if (answer === null || (answer[key] ?? -1) < 0) failed.push(key);
  return failed;
}

/** Nothing from key `from` on was loaded. */
function loadEnd(entries: Int32Array, from: number): LoadEnd {
  const keys = entries.length / ENTRY_WORDS;
  const lost = Array.from({ length: keys - from }, (_, key) => from + key);
  return { loaded: false, invalidBlocks: blocksOf(entries, lost) };
}

function blocksOf(entries: Int32Array, keys: readonly number[]): number[] {
  const blocks = new Set(keys.map((key) => entries[key * ENTRY_WORDS + ENTRY_BLOCK] ?? 0));
  return [...blocks].sort((left, right) => left - right);
}
