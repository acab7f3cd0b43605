/**
 * One save on one rank, as vLLM's sending thread does it: blocks that the scheduler names first, then what later hits can need of
 * the tokens since the last saved one; only what the pool does not have is put.
 */
import { ENTRY_GROUP, ENTRY_HASH_ROW, ENTRY_PREFIX, ENTRY_WORDS } from "../../blocks/layout.ts";
import { brokenInvariant } from "../../errors.ts";
import { alignDown } from "../../keys/coordinator/hit-rules.ts";
import type { HitRules } from "../../keys/coordinator/hit-rules.ts";
import { planSave } from "../../keys/coordinator/transfer-plan.ts";
import type { PutTurn } from "../../keys/coordinator/transfer-plan.ts";
import { putsChunk } from "../../keys/striping.ts";
import { EngineCode } from "../../store/engine.ts";
import { EntryList, missingEntries } from "./store-requests.ts";
import type { StoreAnswer, StoreJob } from "./store-requests.ts";

/** Block 0 holds no states: vLLM puts it where a block is gone or was never there. */
const NULL_BLOCK = 0;

export interface SaveRank {
  readonly rules: HitRules;
  readonly turns: readonly PutTurn[];
  /** Values that one block gives on this rank, per group. */
  readonly shardsOfGroup: readonly number[];
}

/** What a job asks and tells of its request, as this rank knows it. */
export interface SaveMemory {
  /** False: a later request has taken the place of the job's. */
  isLive(): boolean;
  /** The pool was full for this request, and no put has succeeded since. */
  passesOver(): boolean;
  /** Leading tokens that are saved already. */
  savedTokens(): number;
  recordSaved(tokens: number): void;
  /** The pool refused a value for want of space. */
  refused(): void;
  /** A whole put succeeded: there is space again for everybody. */
  relieved(): void;
}

export interface SaveJob {
  /** Tokens that are computed and may be saved. */
  readonly tokens: number;
  /** `SavePlanInput.promptTokens`. */
  readonly promptTokens: number | null;
  readonly hashes: number;
  /** The request's block ids per group. */
  readonly blocks: readonly ArrayLike<number>[];
  /** Blocks that hold the states at the end of a prefix of `tokens` tokens: Mamba states and partial tails. */
  readonly boundaryPuts: readonly BoundaryPut[];
}

export interface BoundaryPut {
  readonly group: number;
  readonly block: number;
  readonly tokens: number;
}

export interface SaveEnd {
  readonly kind: "saved" | "passed_over" | "failed" | "stale";
  /** Blocks of which every value that was missing is now stored, in order. */
  readonly stored: readonly StoredBlock[];
}

export interface StoredBlock {
  readonly group: number;
  readonly hash: number;
}

const FAILED: SaveEnd = { kind: "failed", stored: [] };
const SAVED: SaveEnd = { kind: "saved", stored: [] };

export function* saveJob(rank: SaveRank, memory: SaveMemory, job: SaveJob): StoreJob<SaveEnd> {
  const tokens = alignDown(job.tokens, rank.rules.blockTokens);
  if (!memory.isLive()) return { kind: "stale", stored: [] };
  if (memory.passesOver()) return { kind: "passed_over", stored: [] };
  const boundary = yield* putMissing(boundaryEntries(rank, job), memory);
  if (boundary.failed) return FAILED;
  if (tokens === 0) return SAVED;
  const positional = yield* putMissing(positionalEntries(rank, memory, job, tokens), memory);
  if (!positional.failed) memory.recordSaved(tokens);
  return { kind: positional.failed ? "failed" : "saved", stored: positional.stored };
}

/** States by the hash of the prefix that they end; each put by the rank whose turn the chunk is. */
function boundaryEntries(rank: SaveRank, job: SaveJob): Int32Array {
  const list = new EntryList();
  const { groups, hashBlockSize } = rank.rules;
  for (const { group, block, tokens } of job.boundaryPuts) {
    const span = groups[group]?.spanTokens;
    const turn = rank.turns[group];
    if (span === undefined || turn === undefined || tokens === 0 || block === NULL_BLOCK) continue;
    const hash = tokens / hashBlockSize - 1;
    if (!Number.isInteger(hash))
      brokenInvariant("a boundary lies inside a hash block", { tokens, hashBlockSize });
    if (hash >= job.hashes) continue;
    if (!putsChunk(Math.ceil(tokens / span) - 1, turn.putStep, turn.putPhase)) continue;
    list.add(group, 0, block, hash);
  }
  return list.entries();
}

function positionalEntries(
  rank: SaveRank,
  memory: SaveMemory,
  job: SaveJob,
  tokens: number,
): Int32Array {
  const list = new EntryList();
  const savedTokens = memory.savedTokens();
  const input = { tokens, savedTokens, promptTokens: job.promptTokens };
  planSave(rank.rules, input, rank.turns).forEach(({ chunks, hashes }, group) => {
    const row = job.blocks[group];
    for (let index = 0; index < chunks.length; index++) {
      // A block outside of the window may be gone already.
      const block = row?.[chunks[index] ?? 0] ?? NULL_BLOCK;
      const hash = hashes[index] ?? 0;
      if (block === NULL_BLOCK || hash >= job.hashes) continue;
      for (let shard = 0; shard < (rank.shardsOfGroup[group] ?? 1); shard++)
        list.add(group, shard, block, hash);
    }
  });
  return list.entries();
}

interface PutEnd {
  readonly failed: boolean;
  readonly stored: readonly StoredBlock[];
}

/** Asks which of the keys exist and puts the others. Tells the memory whether the pool is full. */
function* putMissing(entries: Int32Array, memory: SaveMemory): StoreJob<PutEnd> {
  if (entries.length === 0) return { failed: false, stored: [] };
  const exists = yield { operation: "exists", entries };
  if (exists === null) return { failed: true, stored: [] };
  const missing = missingEntries(entries, exists);
  if (missing.length === 0) return { failed: false, stored: [] };
  const answer = yield { operation: "put", entries: missing };
  const end = putEnd(missing, answer);
  if (end.full) memory.refused();
  if (!end.failed) memory.relieved();
  return end;
}

function putEnd(entries: Int32Array, answer: StoreAnswer): PutEnd & { readonly full: boolean } {
  if (answer === null) return { failed: true, full: false, stored: [] };
  let failed = false;
  let full = false;
  const stored: StoredBlock[] = [];
  const keys = entries.length / ENTRY_WORDS;
  for (let key = 0; key < keys;) {
    const group = entries[key * ENTRY_WORDS + ENTRY_GROUP] ?? 0;
    const hash = entries[key * ENTRY_WORDS + ENTRY_HASH_ROW] ?? 0;
    let whole = true;
    // The values of one block stand in a row, their shards ascending.
    let shard = -1;
    for (; key < keys && sameBlock(entries, key, group, hash, shard); key++) {
      shard = entries[key * ENTRY_WORDS + ENTRY_PREFIX] ?? 0;
      const code = answer[key] ?? -1;
      if (code >= 0) continue;
      whole = false;
      failed = true;
      full ||= code === EngineCode.NO_AVAILABLE_HANDLE;
    }
    if (whole) stored.push({ group, hash });
  }
  return { failed, full, stored };
}

function sameBlock(
  entries: Int32Array,
  key: number,
  group: number,
  hash: number,
  shard: number,
): boolean {
  const at = key * ENTRY_WORDS;
  return (
    entries[at + ENTRY_GROUP] === group &&
    entries[at + ENTRY_HASH_ROW] === hash &&
    (entries[at + ENTRY_PREFIX] ?? 0) > shard
  );
}
