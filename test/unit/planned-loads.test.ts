/**
 * Goal: loads of hybrid models and of blocks that are several values bring the blocks that the rule names, whatever the size of
 * batches; what is lost is reported, and cancels, deadlines and ends are those of other loads.
 * Method: planned job records on real tables, the real loader, the simulated engine on a virtual clock with scripted faults.
 */
import { describe, expect, test } from "vitest";
import { LoaderActor } from "../../src/actors/loader/loader-actor.ts";
import * as messages from "../../src/actors/messages.ts";
import type { LoadDone } from "../../src/actors/messages.ts";
import * as layout from "../../src/blocks/layout.ts";
import type { HitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { HYBRID, plannedWorld, rowsOf, SHARDED, valueKeys } from "./planned-transfers.ts";
import { BLOCK_BYTES, range, type ActorWorld, type WorldOptions } from "./store-world.ts";

const LOAD = layout.JOB_KIND_LOAD;

function start(
  rules: HitRules,
  options: WorldOptions = {},
): {
  world: ActorWorld;
  loader: LoaderActor;
  reports: () => LoadDone[];
  load: (job: number, hit: number, local?: number, deadlineMs?: number) => number;
} {
  const world = plannedWorld(rules, options);
  const { tables, workers } = world;
  const loader = new LoaderActor({ tables, workers, rules });
  const load = (job: number, hit: number, local = 0, deadlineMs = 1_000_000): number => {
    const hashPage = world.writeJob({
      job,
      kind: LOAD,
      blocks: rowsOf(rules, hit, 1 + job * 40, true),
      deadlineMs,
      planned: {
        tokens: hit,
        localTokens: local,
        hashes: hit / rules.hashBlockSize,
        tailTokens: rules.groups.map(() => hit),
      },
    });
    workers.forEach((_, worker) => world.inbox.push({ kind: "load", job, ticket: 0, worker }));
    return hashPage;
  };
  const reports = (): LoadDone[] => world.sent.filter((message) => message.kind === "loadDone");
  return { world, loader, reports, load };
}

/** Puts every value of every block of the request's first `hashes` hashes into the pool, filled with 100 + hash. */
function fill(world: ActorWorld, hashPage: number, hashes: number): void {
  const values = world.workers[0]?.ownPrefixesOfGroup[0]?.length ?? 1;
  world.workers.forEach((_, rank) =>
    world.rules.groups.forEach((__, group) =>
      range(0, hashes).forEach((hash) =>
        valueKeys(world, group, hashPage, hash, rank).forEach((key) =>
          world.pool.put(key, new Uint8Array(BLOCK_BYTES / values).fill(100 + hash)),
        ),
      ),
    ),
  );
}

describe("loads that succeed", () => {
  test("all of full attention, the window's last blocks, the last state; every rank, any batch size", () => {
    for (const keysPerBatchMax of [1, 3, 64]) {
      const { world, loader, reports, load } = start(HYBRID, {
        ranks: 3,
        shape: { batchSlots: 2, keysPerBatchMax },
      });
      const hashPage = load(0, 80, 8);
      fill(world, hashPage, 20);
      world.run(loader, world.context());
      expect(
        reports().map(({ outcome, badChunk, memoryBlocks }) => [outcome, badChunk, memoryBlocks]),
      ).toEqual(range(0, 3).map(() => [messages.OUTCOME_HIT, layout.NONE, 18 + 3 + 1]));
      range(0, 20).forEach((chunk) => {
        expect(world.block(0, 1 + chunk)[0]).toBe(chunk < 2 ? 1 + chunk : 100 + chunk);
        expect(world.block(1, 1 + chunk)[0]).toBe(chunk < 17 ? 51 + chunk : 100 + chunk);
      });
      range(0, 10).forEach((chunk) =>
        expect(world.block(2, 1 + chunk)[0]).toBe(chunk < 9 ? 101 + chunk : 119),
      );
    }
  });

  test("values of one block land in their parts of it", () => {
    const { world, loader, reports, load } = start(SHARDED, { valuesPerBlock: 4 });
    const hashPage = load(0, 12);
    fill(world, hashPage, 3);
    const [, , third = ""] = valueKeys(world, 0, hashPage, 1);
    world.pool.remove(third);
    world.pool.put(third, new Uint8Array(BLOCK_BYTES / 4).fill(9));
    world.run(loader, world.context());
    expect(reports()).toMatchObject([{ outcome: messages.OUTCOME_HIT, memoryBlocks: 12 }]);
    expect([0, 8, 16, 24].map((at) => world.block(0, 2)[at])).toEqual([101, 101, 9, 101]);
  });

  test("a load without keys is reported at once", () => {
    const { world, loader, reports, load } = start(HYBRID);
    load(0, 0);
    world.step(loader, world.context());
    expect(reports()).toMatchObject([{ outcome: messages.OUTCOME_HIT, badChunk: layout.NONE }]);
  });
});

describe("loads that fail", () => {
  test("several groups: everything that is not local is lost, and no more is asked", () => {
    const { world, loader, reports, load } = start(HYBRID, {
      shape: { batchSlots: 1, keysPerBatchMax: 4 },
    });
    const hashPage = load(0, 160, 24);
    fill(world, hashPage, 40);
    world.pool.remove(world.key(0, 0, hashPage, 11));
    world.run(loader, world.context());
    expect(reports()).toMatchObject([{ outcome: messages.OUTCOME_MISS, badChunk: 3 }]);
    expect(loader.jobCounters.batches).toBe(2);
  });

  test("one group: the first chunk of which a value is lost", () => {
    const { world, loader, reports, load } = start(SHARDED, {
      valuesPerBlock: 2,
      shape: { batchSlots: 2, keysPerBatchMax: 5 },
      ranks: 4,
    });
    const hashPage = load(0, 80, 8);
    fill(world, hashPage, 20);
    for (const rank of range(0, 4)) {
      world.pool.remove(valueKeys(world, 0, hashPage, 14, rank)[1] ?? "");
      world.pool.remove(valueKeys(world, 0, hashPage, 9, rank)[0] ?? "");
    }
    world.run(loader, world.context());
    expect(reports().map(({ outcome, badChunk }) => [outcome, badChunk])).toEqual(
      range(0, 4).map(() => [messages.OUTCOME_MISS, 9]),
    );
  });

  test("the engine fails: the rest is not asked, and counts as lost", () => {
    const { world, loader, reports, load } = start(SHARDED, {
      valuesPerBlock: 2,
      shape: { batchSlots: 1, keysPerBatchMax: 4 },
    });
    const hashPage = load(0, 80);
    fill(world, hashPage, 20);
    let asked = 0;
    world.faults = { batchStatus: () => (++asked === 3 ? EngineCode.ENGINE_DOWN : 0) };
    world.run(loader, world.context());
    expect(reports()).toMatchObject([{ outcome: messages.OUTCOME_ENGINE_DOWN, badChunk: 4 }]);
    expect(loader.counters.keys).toBe(12);
  });

  test("a cancel: what is in flight is awaited, the rest counts as lost; the message of a load that never came too", () => {
    const { world, loader, reports, load } = start(HYBRID, {
      shape: { batchSlots: 1, keysPerBatchMax: 4 },
      delayMsMax: 50,
    });
    const context = world.context();
    const hashPage = load(0, 80, 16);
    fill(world, hashPage, 20);
    world.step(loader, context);
    world.inbox.push({ kind: "cancelLoad", job: 0, ticket: 0 });
    world.step(loader, context);
    expect(reports()).toEqual([]);
    world.run(loader, context);
    expect(reports()).toMatchObject([{ outcome: messages.OUTCOME_CANCELLED, badChunk: 2 }]);
    expect(loader.counters.keys).toBe(4);
    load(1, 16);
    world.inbox.length = 0;
    world.inbox.push({ kind: "cancelLoad", job: 1, ticket: 0 });
    world.step(loader, context);
    expect(reports()[1]).toMatchObject({ outcome: messages.OUTCOME_CANCELLED, badChunk: 0 });
  });

  test("the deadline gives up what is not sent", () => {
    const { world, loader, reports, load } = start(HYBRID, {
      shape: { batchSlots: 1, keysPerBatchMax: 4 },
      delayMsMax: 100,
    });
    fill(world, load(0, 160, 0, 200), 40);
    world.run(loader, world.context());
    expect(reports()).toMatchObject([{ outcome: messages.OUTCOME_TIMEOUT, badChunk: 0 }]);
    expect(world.channel.inFlight()).toBe(0);
  });
});
