/**
 * Goal: with a disk tier, loads keep to the owner's staging buffer, planned or not: what a get may ask for, how many go at a time,
 * what can never be staged. From which tier blocks came is counted and, if wanted, logged.
 * Method: real tables, the real loader, the simulated engine; a channel in front of it notes every get and tells tiers.
 */
import { describe, expect, test } from "vitest";
import { LoaderActor } from "../../src/actors/loader/loader-actor.ts";
import type { LoadStaging } from "../../src/actors/loader/load-work.ts";
import { loadStaging } from "../../src/actors/loader/load-work.ts";
import * as messages from "../../src/actors/messages.ts";
import * as layout from "../../src/blocks/layout.ts";
import { readEnvironment } from "../../src/config/environment.ts";
import { stagingSettings } from "../../src/config/staging.ts";
import { fitsStaging, subBatchEnd } from "../../src/actors/loader/sub-batches.ts";
import { splitForStaging, stagingBudget, stagingBytes } from "../../src/store/disk-split.ts";
import type { EngineChannel } from "../../src/store/engine.ts";
import { COUNTERS, CounterBlock, createCounterBuffer } from "../../src/trace/counters.ts";
import { HYBRID, plannedWorld, rowsOf } from "./planned-transfers.ts";
import { ActorWorld, BLOCK_BYTES, range } from "./store-world.ts";

const LOAD = layout.JOB_KIND_LOAD;
/** Room for this many blocks at a time. */
const blocks = (count: number, readsMax = 1): LoadStaging => ({
  budget: stagingBudget(count * stagingBytes(BLOCK_BYTES), 1),
  readsMax,
});

interface Watched {
  readonly engine: EngineChannel;
  /** Keys of each get, and the most gets in flight at a time. */
  readonly gets: number[];
  most: number;
}

/** Odd keys of a batch come from disk, every fourth one's tier is not known. */
function watch(engine: EngineChannel): Watched {
  const watched = { gets: [] as number[], most: 0 };
  const own: Partial<EngineChannel> = {
    submit(...batch) {
      engine.submit(...batch);
      watched.gets.push(batch[3]);
      watched.most = Math.max(watched.most, engine.inFlight());
    },
    tiers: (slot) => engine.tiers(slot).map((_, key) => [1, 2, 1, 0][key % 4] ?? 0),
  };
  const front = new Proxy(engine, {
    get(target, name) {
      const value: unknown = Reflect.get(own, name) ?? Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return Object.assign(watched, { engine: front });
}

describe.each([false, true])("planned: %s", (planned) => {
  function start(staging: LoadStaging | undefined, tierLog = false) {
    const world = planned ? plannedWorld(HYBRID) : new ActorWorld();
    const { tables, workers, rules } = world;
    const metrics = new CounterBlock(createCounterBuffer(1), 0);
    const loader = new LoaderActor({ tables, workers, rules, staging, tierLog, metrics });
    const watched = watch(world.channel.attach(1));
    const context = world.context(1, watched.engine);
    /** 8 chunks of 4 tokens: 8 keys, or 12 of the hybrid model. */
    const load = (job: number): void => {
      const rows = planned ? rowsOf(rules, 32, 1 + job * 20, true) : [range(1, 9)];
      const hashPage = world.writeJob({
        job,
        kind: LOAD,
        blocks: rows,
        ...(planned ? { planned: { tokens: 32, hashes: 8, tailTokens: [32, 32, 32] } } : {}),
      });
      rows.forEach((_, group) => world.fillPool(hashPage, range(0, 8), 0, group));
      if (planned)
        range(0, 8).forEach((hash) =>
          rows.forEach((_, group) =>
            world.pool.put(world.key(0, group, hashPage, hash), new Uint8Array(BLOCK_BYTES)),
          ),
        );
      world.inbox.push({ kind: "load", job, ticket: 0, worker: 0 });
    };
    return { world, loader, context, watched, load, metrics };
  }
  const keys = planned ? 12 : 8;

  test("gets fit the buffer, and one goes at a time, whatever jobs there are", () => {
    const { world, loader, context, watched, load } = start(blocks(3));
    load(0);
    load(1);
    world.run(loader, context);
    const cut = [...Array(Math.floor(keys / 3)).fill(3), ...(keys % 3 === 0 ? [] : [keys % 3])];
    const ascending = (one: number, other: number): number => one - other;
    expect(watched.gets.toSorted(ascending)).toEqual([...cut, ...cut].toSorted(ascending));
    expect(watched.most).toBe(1);
    expect(world.sent.map((sent) => sent.kind === "loadDone" && sent.outcome)).toEqual([
      messages.OUTCOME_HIT,
      messages.OUTCOME_HIT,
    ]);
  });

  test("more receiving threads of vLLM: as many gets at a time", () => {
    const { world, loader, context, watched, load } = start(blocks(2, 2));
    range(0, 3).forEach(load);
    world.run(loader, context);
    expect(watched.most).toBe(2);
    expect(watched.gets.reduce((all, count) => all + count, 0)).toBe(3 * keys);
  });

  test("after a get that failed there is no other, and all from it on is lost", () => {
    const { world, loader, context, watched, load } = start(blocks(3));
    load(0);
    let gets = 0;
    world.faults = { keyResult: () => (++gets === 4 ? -704 : 0) };
    world.run(loader, context);
    expect(watched.gets).toEqual([3, 3]);
    expect(world.sent).toMatchObject([
      { outcome: messages.OUTCOME_MISS, badChunk: planned ? 0 : 3 },
    ]);
  });

  test("a value that cannot be staged: nothing is asked, everything is lost, and that is said", () => {
    const { world, loader, context, watched, load } = start({
      budget: stagingBudget(stagingBytes(BLOCK_BYTES) - 1),
      readsMax: 1,
    });
    load(0);
    world.run(loader, context);
    expect(watched.gets).toEqual([]);
    expect(world.sent).toMatchObject([{ outcome: messages.OUTCOME_MISS, badChunk: 0 }]);
    expect(world.logged.map(({ text }) => text)).toEqual([
      expect.stringContaining("larger than the staging buffer"),
    ]);
  });

  test("tiers are counted, and logged as vLLM does when that is asked for", () => {
    for (const tierLog of [false, true]) {
      const { world, loader, context, load, metrics } = start(blocks(64), tierLog);
      load(0);
      let gets = 0;
      world.faults = { keyResult: () => (++gets === 1 ? -704 : 0) };
      world.run(loader, context);
      const [unknown, memory, disk] = range(0, 3).map((tier) =>
        metrics.value(COUNTERS.loadedKeys + tier),
      );
      const first = Math.min(keys, 8);
      expect([unknown, memory, disk]).toEqual([2, 4, 2]);
      expect(metrics.value(COUNTERS.loadedBytes + 1)).toBe(3 * BLOCK_BYTES);
      expect(metrics.value(COUNTERS.loadedBytes + 2)).toBe(2 * BLOCK_BYTES);
      const line = {
        fields: {
          slot: 0,
          generation: 1,
          batchKeys: first,
          memoryKeys: 4,
          diskKeys: 2,
          unknownKeys: 2,
          successKeys: first - 1,
          failedKeys: 1,
          bytesByTier: { memory: 3 * BLOCK_BYTES, disk: 2 * BLOCK_BYTES, unknown: 2 * BLOCK_BYTES },
        },
        text: "Mooncake load tier summary",
      };
      expect(world.logged).toEqual(tierLog ? [line] : []);
    }
  });
});

test("batches cut one by one are those that the rule cuts at once", () => {
  const world = new ActorWorld();
  for (let round = 0; round < 500; round++) {
    const sizes = range(0, Math.floor(world.random.next() * 30)).map(() =>
      Math.floor(world.random.next() * 60_000),
    );
    const budget = stagingBudget(20_000 + Math.floor(world.random.next() * 100_000), 0.7);
    const split = splitForStaging(sizes, budget);
    expect(fitsStaging(sizes, budget)).toBe(split.kind === "batches");
    if (split.kind !== "batches") continue;
    const ends: number[] = [];
    for (let from = 0; from < sizes.length; from = ends.at(-1) ?? 0)
      ends.push(subBatchEnd(from, sizes.length, 1000, budget, (key) => sizes[key] ?? 0));
    expect(ends).toEqual(split.ends);
  }
});

test("settings: vLLM's buffer, ratio and receiving threads; the owner's own size where it is known", () => {
  const settings = (variables: Record<string, string>) =>
    stagingSettings({ enableOffload: true }, readEnvironment(variables));
  expect(stagingSettings({ enableOffload: false }, readEnvironment({}))).toBeNull();
  expect(settings({})).toEqual({ bufferBytes: 1280 * 1024 ** 2, usableRatio: 0.9, readsMax: 1 });
  const given = settings({
    MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES: "1000000",
    VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO: "0.5",
    VLLM_MOONCAKE_LOAD_RECV_THREADS: "3",
  });
  expect(given && loadStaging(given)).toEqual({
    budget: { rawBytes: 1_000_000, usableBytes: 500_000 },
    readsMax: 3,
  });
});
