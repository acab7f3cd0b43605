/**
 * One rank's loads against a scripted pool, by the rule and by the real loader: masks, rotation, staging split, failed blocks,
 * figures. Where vLLM forgets the blocks after a failed batch, the calls are compared and ours must report every block from that
 * batch on: such a trace is mended.
 */
import { loadJob } from "../../../../src/connector/worker/load-job.ts";
import { poolKey } from "../../../../src/keys/pool-keys.ts";
import { stagingBudget } from "../../../../src/store/disk-split.ts";
import { replayPlans } from "../../actor-bench.ts";
import { replayLoads, tailsOf } from "../../load-replay.ts";
import type { LoadAction, LoadTrace } from "../../load-replay.ts";
import { Cases } from "../cases.ts";
import type { CaseCheck, VectorKind } from "../cases.ts";
import { askedOf, WorkerBench } from "../worker-bench.ts";
import type { FileCall } from "../worker-bench.ts";

const RULE = "after a failed batch every block from that batch on is reported";

export const workerLoads: VectorKind = {
  name: "worker_loads",
  run(contents) {
    const report = new Cases();
    (contents as { traces: LoadTrace[] }).traces.forEach((trace, index) =>
      report.run(`trace ${index} ${JSON.stringify([trace.config, trace.rank])}`, (check) => {
        const bench = new WorkerBench(trace.config, trace.rank);
        trace.jobs.forEach((job, number) => load(trace, bench, job, number, check));
        replayPlans(trace, trace.jobs[0]?.hashes ?? [], check, (actors) =>
          replayLoads(trace, actors, check),
        );
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
  const { end, calls } = bench.run(steps, job.hashes, job.store_calls);
  const of = `of job ${number}`;
  check.equal(`calls ${of}`, calls, askedOf(job.store_calls));
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
