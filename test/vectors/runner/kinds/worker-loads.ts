/**
 * One rank's loads against a scripted pool: masks, rotation, staging split, failed blocks, figures. Where vLLM forgets the blocks
 * after a failed batch, the calls are compared and ours must report every block from that batch on: such a trace is mended.
 */
import { loadJob } from "../../../../src/connector/worker/load-job.ts";
import { poolKey } from "../../../../src/keys/pool-keys.ts";
import { stagingBudget } from "../../../../src/store/disk-split.ts";
import type { VectorConfig, VectorRank } from "../../vectors.ts";
import { Cases } from "../cases.ts";
import type { CaseCheck, VectorKind } from "../cases.ts";
import { askedOf, WorkerBench } from "../worker-bench.ts";
import type { FileCall, FileStats } from "../worker-bench.ts";

interface LoadAction {
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
interface LoadTrace {
  readonly config: VectorConfig;
  readonly rank: VectorRank;
  readonly disk_budget: number | null;
  readonly jobs: readonly LoadAction[];
}

const RULE = "after a failed batch every block from that batch on is reported";

export const workerLoads: VectorKind = {
  name: "worker_loads",
  run(contents) {
    const report = new Cases();
    (contents as { traces: LoadTrace[] }).traces.forEach((trace, index) =>
      report.run(`trace ${index} ${JSON.stringify([trace.config, trace.rank])}`, (check) => {
        const bench = new WorkerBench(trace.config, trace.rank);
        trace.jobs.forEach((job, number) => load(trace, bench, job, number, check));
      }),
    );
    return report;
  },
};

function load(
  trace: LoadTrace,
  bench: WorkerBench,
  job: LoadAction,
  number: number,
  check: CaseCheck,
): void {
  const { rules, tpRank, shardsOfGroup, bytesOfGroup } = bench;
  const staging = trace.disk_budget === null ? null : stagingBudget(trace.disk_budget);
  const steps = loadJob(
    { rules, tpRank, shardsOfGroup, bytesOfGroup, staging },
    {
      hitTokens: job.token_len,
      localTokens: job.vllm_cached_tokens,
      tailTokens: tailsOf(job, rules.groups.length),
      blocks: job.block_ids,
    },
  );
  const { end, calls, stats } = bench.run(steps, job.hashes, job.store_calls);
  const of = `of job ${number}`;
  check.equal(`calls ${of}`, calls, askedOf(job.store_calls));
  check.equal(`figures ${of}`, stats, job.stats);
  check.equal(`finished ${of}`, [job.req_id], job.finished);
  const several = rules.groups.length > 1;
  check.equal(`failed ${of}`, several && !end.loaded ? [job.req_id] : [], job.failed_requests);
  if (several) return;
  const { invalidBlocks } = end;
  const left = blocksNotAsked(bench, job);
  const last = job.store_calls.at(-1);
  if (end.loaded || last === undefined || left.length === 0) {
    check.equal(`invalid blocks ${of}`, invalidBlocks, job.invalid_block_ids);
    return;
  }
  check.equal(`invalid blocks ${of}`, invalidBlocks, ascending([...blocksOf(last, job), ...left]));
  check.mended(`job ${number}: ${RULE}`);
}

/** Per group, what names its last block; the hit itself where the trace says nothing. */
function tailsOf(job: LoadAction, groups: number): number[] {
  const told = new Map(job.tail_key_boundaries);
  return Array.from({ length: groups }, (_, group) => told.get(group) ?? job.token_len);
}

/** Blocks of which a key was never asked for: what vLLM forgets. Rule 14 in its own words, apart from our code. */
function blocksNotAsked(bench: WorkerBench, job: LoadAction): number[] {
  const [row = []] = job.block_ids;
  const own = bench.groups[0]?.own ?? [];
  if (job.store_calls.length === 0) return [];
  const blockSize = job.token_len / row.length;
  const asked = new Set(job.store_calls.flatMap(({ keys }) => keys));
  return row.filter((_, chunk) => {
    const hash = job.hashes[chunk] ?? "";
    const loads = (chunk + 1) * blockSize > job.vllm_cached_tokens;
    return loads && own.some((prefix) => !asked.has(poolKey(prefix, hash)));
  });
}

/** The blocks whose hashes a call's keys end with. */
function blocksOf(call: FileCall, job: LoadAction): number[] {
  const [row = []] = job.block_ids;
  return call.keys.flatMap((key) => row[job.hashes.findIndex((hash) => key.endsWith(hash))] ?? []);
}

function ascending(blocks: readonly number[]): number[] {
  return [...new Set(blocks)].sort((left, right) => left - right);
}
