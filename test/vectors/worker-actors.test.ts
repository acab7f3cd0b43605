/**
 * Goal: the saver and loader actors ask the pool what vLLM's threads ask it, in the same order, and end as these do, for every kind
 * of model, shards of a finer cut store and a disk tier. (golden-files.test.ts compares the rules alone.)
 * Method: the recorded traces of one rank through the real actors on real tables; a scripted channel answers. Traces that follow
 * chunk numbers are run as plans too. Of a failed load everything from the failed batch on counts as lost.
 */
import { describe, expect, it } from "vitest";
import { LoaderActor } from "../../src/actors/loader/loader-actor.ts";
import { OUTCOME_HIT } from "../../src/actors/messages.ts";
import { SaverActor } from "../../src/actors/saver/saver-actor.ts";
import * as layout from "../../src/blocks/layout.ts";
import { poolKey } from "../../src/keys/pool-keys.ts";
import { stagingBudget } from "../../src/store/disk-split.ts";
import { ActorBench } from "./actor-bench.ts";
import type { BenchTrace } from "./actor-bench.ts";
import { askedOf } from "./runner/worker-bench.ts";
import type { FileCall } from "./runner/worker-bench.ts";
import { readVectors } from "./vectors.ts";

interface SaveStep {
  readonly action: "save" | "delete_finished";
  readonly req_id: string;
  readonly store_job_id: number;
  readonly token_len_chunk: number;
  readonly prefill_end_tokens?: number | null;
  readonly boundary_puts: readonly (readonly [number, number, number])[] | null;
  readonly store_calls: readonly FileCall[];
  readonly pressure: boolean;
  readonly saved_offset: Readonly<Record<string, number>>;
}
interface SaveTrace extends BenchTrace {
  readonly requests: Readonly<
    Record<string, { readonly hashes: readonly string[]; readonly block_ids: readonly number[][] }>
  >;
  readonly jobs: readonly SaveStep[];
}
interface LoadTrace extends BenchTrace {
  readonly disk_budget: number | null;
  readonly jobs: readonly LoadStep[];
}
interface LoadStep {
  readonly token_len: number;
  readonly vllm_cached_tokens: number;
  readonly tail_key_boundaries?: readonly (readonly [group: number, tokens: number])[];
  readonly hashes: readonly string[];
  readonly block_ids: readonly number[][];
  readonly store_calls: readonly FileCall[];
  readonly invalid_block_ids: readonly number[];
  readonly failed_requests: readonly string[];
}

const saves = readVectors<{ traces: SaveTrace[] }>("worker_saves").traces;
const loads = readVectors<{ traces: LoadTrace[] }>("worker_loads").traces;

/** Each trace, and once more as plans where it would not be planned. */
function variants<Trace extends BenchTrace>(traces: readonly Trace[]): [string, Trace, boolean][] {
  return traces.flatMap((trace, index) => {
    const both: [string, Trace, boolean][] = [[`${index}`, trace, false]];
    if (new ActorBench(trace, false).rules.uniform) both.push([`${index}, planned`, trace, true]);
    return both;
  });
}

describe("the saver", () => {
  it("is compared in 16 traces, 6 of them planned in any case", () =>
    expect([saves.length, variants(saves).length]).toEqual([16, 26]));

  it.each(variants(saves))("asks what vLLM asks (%s)", (_, trace, planned) => {
    const bench = new ActorBench(trace, planned);
    const { tables } = bench.world;
    const saver = new SaverActor({ tables, workers: bench.workers, rules: bench.rules });
    const slots = new Map<string, number>();
    const generations = new Map<string, number>();
    for (const job of trace.jobs) {
      const generation = generations.get(job.req_id) ?? 1;
      if (job.action === "delete_finished") {
        generations.set(job.req_id, generation + 1);
        continue;
      }
      const request = trace.requests[job.req_id];
      const slot = slots.get(job.req_id) ?? slots.size;
      slots.set(job.req_id, slot);
      const told = bench.run(
        saver,
        {
          job: job.store_job_id % 16,
          kind: layout.JOB_KIND_SAVE,
          slot,
          generation,
          rows: request?.block_ids ?? [],
          hashes: request?.hashes ?? [],
          from: 0,
          to: Math.floor(job.token_len_chunk / bench.rules.blockTokens),
          planned: {
            tokens: job.token_len_chunk,
            promptTokens: job.prefill_end_tokens ?? null,
            boundaryPuts: job.boundary_puts ?? [],
          },
        },
        job.store_calls,
      );
      const of = `of job ${job.store_job_id}`;
      expect(told, `calls ${of}`).toEqual(askedOf(job.store_calls));
      expect(
        bench.world.sent.map(({ kind }) => kind),
        `report ${of}`,
      ).toEqual(["saveDone"]);
      expect(saver.pressure.active, `pressure ${of}`).toBe(job.pressure);
    }
  });
});

describe("the loader", () => {
  it("is compared in 16 traces, 6 of them planned in any case", () =>
    expect([loads.length, variants(loads).length]).toEqual([16, 26]));

  it.each(variants(loads))("asks what vLLM asks (%s)", (_, trace, planned) => {
    const bench = new ActorBench(trace, planned);
    const { rules, workers } = bench;
    const { tables } = bench.world;
    const staging =
      trace.disk_budget === null
        ? undefined
        : { budget: stagingBudget(trace.disk_budget), readsMax: 1 };
    const loader = new LoaderActor({ tables, workers, rules, staging });
    trace.jobs.forEach((job, number) => {
      const told = new Map(job.tail_key_boundaries);
      const calls = bench.run(
        loader,
        {
          job: number % 16,
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
            tailTokens: rules.groups.map((__, group) => told.get(group) ?? job.token_len),
          },
        },
        job.store_calls,
      );
      expect(calls, `calls of job ${number}`).toEqual(askedOf(job.store_calls));
      const badChunk = badChunkOf(bench, job);
      const [report] = bench.world.sent;
      expect(report, `report of job ${number}`).toMatchObject({ kind: "loadDone", badChunk });
      const succeeded = report?.kind === "loadDone" && report.outcome === OUTCOME_HIT;
      expect(succeeded, `outcome of job ${number}`).toBe(badChunk === layout.NONE);
    });
  });
});

/** With several groups the whole request is lost; with one, what the trace says and what was not asked for after a failure. */
function badChunkOf(bench: ActorBench, job: LoadStep): number {
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
