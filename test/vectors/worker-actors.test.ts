/**
 * Goal: the saver and loader actors ask the pool what vLLM's threads ask it, in the same order, and end as these do, where one
 * group of attention gives one value a block. (golden-files.test.ts compares the rules for every kind of model.)
 * Method: the recorded traces of one rank through the real actors on real tables; a scripted channel answers. A failed load's
 * report is compared with the mended rule: everything from its first lost chunk on counts as lost.
 */
import { describe, expect, it } from "vitest";
import { LoaderActor } from "../../src/actors/loader/loader-actor.ts";
import type { Actor, ActorContext } from "../../src/actors/step.ts";
import { SaverActor } from "../../src/actors/saver/saver-actor.ts";
import * as layout from "../../src/blocks/layout.ts";
import { poolKeyPrefixes } from "../../src/keys/pool-keys.ts";
import { blockSegments } from "../../src/keys/kv-tensors.ts";
import { planKeySpace } from "../../src/store/key-spaces.ts";
import { keyText } from "../../src/store/model-engine.ts";
import { ActorWorld } from "../unit/store-world.ts";
import { askedOf } from "./runner/worker-bench.ts";
import type { FileCall } from "./runner/worker-bench.ts";
import { ScriptedChannel } from "./scripted-channel.ts";
import { namespaceOf, readVectors, topologyOf } from "./vectors.ts";
import type { VectorConfig, VectorRank } from "./vectors.ts";

interface Trace<Job> {
  readonly config: VectorConfig;
  readonly rank: VectorRank;
  readonly jobs: readonly Job[];
}
interface SaveStep {
  readonly action: "save" | "delete_finished";
  readonly req_id: string;
  readonly store_job_id: number;
  readonly token_len_chunk: number;
  readonly store_calls: readonly FileCall[];
  readonly pressure: boolean;
}
interface SaveTrace extends Trace<SaveStep> {
  readonly requests: Readonly<
    Record<string, { readonly hashes: readonly string[]; readonly block_ids: readonly number[][] }>
  >;
}
interface LoadTrace extends Trace<LoadStep> {
  readonly disk_budget: number | null;
}
interface LoadStep {
  readonly token_len: number;
  readonly vllm_cached_tokens: number;
  readonly hashes: readonly string[];
  readonly block_ids: readonly number[][];
  readonly store_calls: readonly FileCall[];
  readonly invalid_block_ids: readonly number[];
}

const OPERATIONS = new Map([
  [layout.OPERATION_EXISTS, "is_exist"],
  [layout.OPERATION_PUT, "put"],
  [layout.OPERATION_GET, "get"],
]);
const BLOCK = 16;

/** One group, one value a block; pool group names are not told to our engines. */
function fits({ config }: Trace<unknown>): boolean {
  const extra = config.extra_config ?? {};
  return (config.groups ?? []).length <= 1 && Object.keys(extra).length === 0;
}

class ActorBench {
  readonly world = new ActorWorld({
    dimensions: { blockSize: BLOCK, hashBlockSize: BLOCK, blockCount: 200 },
  });
  readonly channel = new ScriptedChannel();
  readonly context: ActorContext;
  readonly workers;
  readonly #segments;

  constructor({ config, rank }: Trace<unknown>) {
    const topology = topologyOf(config, rank);
    const { groups } = poolKeyPrefixes(topology, namespaceOf(config));
    this.#segments = blockSegments(topology)[0]?.[0] ?? [];
    const segments = [[this.#segments.map((each) => ({ ...each, regionId: each.storage }))]];
    const plan = planKeySpace({ tensorParallelRank: rank.tp, groups, segments });
    this.workers = [{ keySpaceId: 0, ...plan }];
    this.context = this.world.context(1, this.channel);
  }

  /** Runs one job against the file's answers; what it asked, as the file writes it. */
  run(
    actor: Actor,
    job: number,
    kind: number,
    step: {
      from: number;
      to: number;
      row: readonly number[];
      hashes: readonly string[];
      slot: number;
      generation: number;
    },
    calls: readonly FileCall[],
  ): unknown[] {
    const { world, channel } = this;
    const { from, to, slot, generation } = step;
    const blocks = [step.row.slice(from, to)];
    const hashPage = world.writeJob({ job, kind, slot, generation, first: from, blocks });
    step.hashes.slice(0, to).forEach((hash, block) => this.#writeDigest(hashPage, block, hash));
    channel.asked.length = 0;
    channel.script.length = 0;
    channel.script.push(...calls.map((call) => call.answer ?? null));
    const name = kind === layout.JOB_KIND_SAVE ? "save" : "load";
    world.sent.length = 0;
    world.inbox.push({ kind: name, job, ticket: 0, worker: 0 });
    // Each step sees what the channel answered to the one before.
    for (let turn = 0; turn < 10 && world.sent.length === 0; turn++)
      world.step(actor, this.context);
    world.tables.jobs[world.tables.job(job) + layout.JOB_LIVE_WORD] = 0;
    return channel.asked.map(({ operation, entries }) => this.#call(operation, entries));
  }

  #call(operation: number, entries: Int32Array): unknown {
    const op = OPERATIONS.get(operation);
    const keys: string[] = [];
    const addrs: [number, number][][] = [];
    const { hashes } = this.world.tables;
    const prefixes = this.workers[0]?.prefixes ?? [];
    for (let at = 0; at < entries.length; at += layout.ENTRY_WORDS) {
      const space = { prefixes, hashBytes: 32, hashes, groups: [] };
      const [prefix = 0, row = 0] = [
        entries[at + layout.ENTRY_PREFIX],
        entries[at + layout.ENTRY_HASH_ROW],
      ];
      keys.push(keyText(space, prefix, row) ?? "");
      const block = entries[at + layout.ENTRY_BLOCK] ?? 0;
      addrs.push(
        this.#segments.map((each) => [each.storage, each.offset + block * each.strideBytes]),
      );
    }
    if (op === "is_exist") return { op, keys };
    return { op, keys, addrs, sizes: keys.map(() => this.#segments.map(({ bytes }) => bytes)) };
  }

  #writeDigest(hashPage: number, block: number, hex: string): void {
    const { words } = this.world.tables.hashes;
    const at = this.world.tables.hashes.offset(hashPage, block);
    new Uint8Array(words.buffer, words.byteOffset + at * 4, 32).set(Buffer.from(hex, "hex"));
  }
}

const saves = readVectors<{ traces: SaveTrace[] }>("worker_saves").traces.filter(fits);
const loads = readVectors<{ traces: LoadTrace[] }>("worker_loads").traces.filter(fits);

describe("the saver", () => {
  it("is compared in 8 traces", () => expect(saves.length).toBe(8));
  it.each(saves.map((trace, index) => [index, trace] as const))(
    "asks what vLLM asks (%i)",
    (_, trace) => {
      const bench = new ActorBench(trace);
      const saver = new SaverActor({ tables: bench.world.tables, workers: bench.workers });
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
        const to = Math.floor(job.token_len_chunk / BLOCK);
        const row = request?.block_ids[0] ?? [];
        const step = { from: 0, to, row, hashes: request?.hashes ?? [], slot, generation };
        const number = job.store_job_id % 16;
        const asked = bench.run(saver, number, layout.JOB_KIND_SAVE, step, job.store_calls);
        expect(asked, `job ${job.store_job_id}`).toEqual(askedOf(job.store_calls));
        expect(bench.world.sent.map(({ kind }) => kind)).toEqual(["saveDone"]);
        expect(saver.pressure.active, `pressure after ${job.store_job_id}`).toBe(job.pressure);
      }
    },
  );
});

describe("the loader", () => {
  const whole = loads.filter(({ disk_budget }) => disk_budget === null);
  it("is compared in the traces without a disk tier", () =>
    expect([loads.length, whole.length]).toEqual([8, 4]));
  it.each(whole.map((trace, index) => [index, trace] as const))(
    "asks what vLLM asks (%i)",
    (_, trace) => {
      const bench = new ActorBench(trace);
      const loader = new LoaderActor({ tables: bench.world.tables, workers: bench.workers });
      trace.jobs.forEach((job, number) => {
        const row = job.block_ids[0] ?? [];
        const from = Math.floor(job.vllm_cached_tokens / BLOCK);
        const step = {
          from,
          to: job.token_len / BLOCK,
          row,
          hashes: job.hashes,
          slot: 0,
          generation: number + 1,
        };
        const asked = bench.run(loader, number % 16, layout.JOB_KIND_LOAD, step, job.store_calls);
        expect(asked, `job ${number}`).toEqual(askedOf(job.store_calls));
        const bad = job.invalid_block_ids.map((block) => row.indexOf(block));
        const badChunk = bad.length === 0 ? layout.NONE : Math.min(...bad);
        expect(bench.world.sent).toMatchObject([{ kind: "loadDone", badChunk }]);
      });
    },
  );
});
