/**
 * A trace of one rank's loads through the real loader on real tables. Of a failed load everything from the failed batch on counts as
 * lost.
 */
import { LoaderActor } from "../../src/actors/loader/loader-actor.ts";
import { OUTCOME_HIT } from "../../src/actors/messages.ts";
import * as layout from "../../src/blocks/layout.ts";
import { poolKey } from "../../src/keys/pool-keys.ts";
import { stagingBudget } from "../../src/store/disk-split.ts";
import type { ActorBench, BenchTrace } from "./actor-bench.ts";
import { figuresOf } from "./figures.ts";
import type { CaseCheck } from "./runner/cases.ts";
import { askedOf } from "./runner/worker-bench.ts";
import type { FileCall, FileStats } from "./runner/worker-bench.ts";

export interface LoadAction {
  readonly req_id: string;
  readonly token_len: number;
  readonly vllm_cached_tokens: number;
  readonly tail_key_boundaries?: readonly (readonly [group: number, tokens: number])[];
  readonly hashes: readonly string[];
  readonly block_ids: readonly (readonly number[])[];
  readonly store_calls: readonly FileCall[];
  readonly finished: readonly string[];
  readonly failed_requests: readonly string[];
  readonly invalid_block_ids: readonly number[];
  readonly stats: FileStats;
}
export interface LoadTrace extends BenchTrace {
  readonly disk_budget: number | null;
  readonly jobs: readonly LoadAction[];
}

/** Job slots of the tables. */
const JOB_SLOTS = 16;

export function replayLoads(trace: LoadTrace, bench: ActorBench, check: CaseCheck): void {
  const { rules, workers, figures: metrics } = bench;
  const { tables } = bench.world;
  const staging =
    trace.disk_budget === null
      ? undefined
      : { budget: stagingBudget(trace.disk_budget), readsMax: 1 };
  const loader = new LoaderActor({ tables, workers, rules, metrics, staging });
  trace.jobs.forEach((job, number) => {
    const calls = bench.run(
      loader,
      {
        job: number % JOB_SLOTS,
        kind: layout.JOB_KIND_LOAD,
        slot: 0,
        generation: number + 1,
        rows: job.block_ids,
        hashes: job.hashes,
        from: Math.floor(job.vllm_cached_tokens / rules.blockTokens),
        to: Math.ceil(job.token_len / rules.blockTokens),
        planned: {
          tokens: job.token_len,
          localTokens: job.vllm_cached_tokens,
          tailTokens: tailsOf(job, rules.groups.length),
        },
      },
      job.store_calls,
    );
    const of = `of job ${number}, by the loader${rules.uniform ? "" : ", planned"}`;
    check.equal(`calls ${of}`, calls, askedOf(job.store_calls));
    check.equal(`figures ${of}`, bench.figures.noted, figuresOf(job.stats));
    const ends = bench.world.sent.flatMap((sent) => (sent.kind === "loadDone" ? [sent] : []));
    check.equal(
      `job that ended ${of}`,
      ends.map((end) => end.job),
      [number % JOB_SLOTS],
    );
    const badChunk = badChunkOf(bench, job);
    check.equal(
      `bad chunk ${of}`,
      ends.map((end) => end.badChunk),
      [badChunk],
    );
    check.equal(`success ${of}`, ends[0]?.outcome === OUTCOME_HIT, badChunk === layout.NONE);
  });
}

/** Per group, what names its last block; the hit itself where the trace says nothing. */
export function tailsOf(job: LoadAction, groups: number): number[] {
  const told = new Map(job.tail_key_boundaries);
  return Array.from({ length: groups }, (_, group) => told.get(group) ?? job.token_len);
}

/** With several groups the whole request is lost; with one, what the trace says and what was not asked for after a failure. */
function badChunkOf(bench: ActorBench, job: LoadAction): number {
  const { groups, blockTokens } = bench.rules;
  const local = Math.floor(job.vllm_cached_tokens / blockTokens);
  if (groups.length > 1) return job.failed_requests.length === 0 ? layout.NONE : local;
  if (job.invalid_block_ids.length === 0) return layout.NONE;
  const row = job.block_ids[0] ?? [];
  const keys = new Set(job.store_calls.flatMap((call) => call.keys));
  const space = bench.workers[0];
  const own = space?.ownPrefixesOfGroup[0] ?? [];
  return row.findIndex((block, chunk) => {
    if (chunk < local) return false;
    const hash = job.hashes[chunk] ?? "";
    const absent = own.some((number) => !keys.has(poolKey(space?.prefixes[number] ?? "", hash)));
    return job.invalid_block_ids.includes(block) || absent;
  });
}
