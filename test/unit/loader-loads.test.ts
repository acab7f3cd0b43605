/**
 * Goal: load jobs become get batches over exactly the job's blocks, and every byte lands in its block; what fails cuts the load
 * at its first bad chunk, and the report always comes.
 * Method: real tables and the simulated engine on a virtual clock, with seeded and scripted faults.
 */
import { describe, expect, test } from "vitest";

import { LoaderActor } from "../../src/actors/loader/loader-actor.ts";
import * as messages from "../../src/actors/messages.ts";
import type { LoadDone } from "../../src/actors/messages.ts";
import * as layout from "../../src/blocks/layout.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { ActorWorld, BLOCK_BYTES, range, type WorldOptions } from "./store-world.ts";

const LOAD = layout.JOB_KIND_LOAD;

function start(options: WorldOptions = {}): {
  world: ActorWorld;
  loader: LoaderActor;
  reports: () => LoadDone[];
} {
  const world = new ActorWorld(options);
  const loader = new LoaderActor({
    tables: world.tables,
    workers: world.workers,
    rules: world.rules,
  });
  return {
    world,
    loader,
    reports: () => world.sent.filter((message) => message.kind === "loadDone"),
  };
}

describe("loads that succeed", () => {
  test("every block of a job of many batches arrives, starting with the job's first chunk", () => {
    const { world, loader, reports } = start();
    const blocks = range(0, 150).map((index) => 200 - index);
    const hashPage = world.writeJob({ job: 3, kind: LOAD, first: 5, blocks: [blocks] });
    world.fillPool(hashPage, range(0, 155));
    world.inbox.push({ kind: "load", job: 3, ticket: 0, worker: 0 });
    world.run(loader, world.context());
    blocks.forEach((block, index) => {
      expect([...world.block(0, block)]).toEqual(Array(BLOCK_BYTES).fill((105 + index) & 255));
    });
    expect(reports()).toMatchObject([
      {
        job: 3,
        worker: 0,
        outcome: messages.OUTCOME_HIT,
        badChunk: layout.NONE,
        memoryBlocks: 150,
        diskBlocks: 0,
        kibibytes: Math.round((150 * BLOCK_BYTES) / 1024),
      },
    ]);
    expect(loader.jobCounters.batches).toBe(Math.ceil(150 / 8));
    expect(world.jobState(3)).toBe(layout.JOB_STATE_DONE);
    expect(loader.idle()).toBe(true);
  });

  test("groups, several hash blocks a block, and a rank's rotation", () => {
    const { world, loader, reports } = start({
      dimensions: { groups: 2, blockSize: 8, hashBlockSize: 4 },
      ranks: 4,
    });
    const blocks = [range(10, 21), range(40, 51)];
    const hashPage = world.writeJob({ job: 0, kind: LOAD, first: 2, blocks });
    for (const rank of range(0, 4))
      for (const group of [0, 1]) world.fillPool(hashPage, range(0, 13), rank, group);
    range(0, 4).forEach((worker) => world.inbox.push({ kind: "load", job: 0, ticket: 0, worker }));
    world.run(loader, world.context());
    for (const group of [0, 1])
      blocks[group]!.forEach((block, index) =>
        expect(world.block(group, block)[0]).toBe(102 + index),
      );
    expect(reports().map(({ outcome, memoryBlocks }) => [outcome, memoryBlocks])).toEqual(
      range(0, 4).map(() => [messages.OUTCOME_HIT, 22]),
    );
    expect(world.jobState(0)).toBe(layout.JOB_STATE_DONE);
  });

  test("a load without blocks is reported at once", () => {
    const { world, loader, reports } = start();
    world.writeJob({ job: 1, kind: LOAD, blocks: [[]] });
    world.inbox.push({ kind: "load", job: 1, ticket: 0, worker: 0 });
    world.step(loader, world.context());
    expect(reports()).toMatchObject([{ outcome: messages.OUTCOME_HIT, badChunk: layout.NONE }]);
  });

  test("a short load is not delayed by a long one before it", () => {
    const { world, loader, reports } = start({ shape: { batchSlots: 2, keysPerBatchMax: 4 } });
    const long = world.writeJob({ job: 0, kind: LOAD, blocks: [range(0, 100)] });
    const short = world.writeJob({ job: 1, kind: LOAD, blocks: [range(120, 124)] });
    world.fillPool(long, range(0, 100));
    world.fillPool(short, range(0, 4));
    world.inbox.push(
      { kind: "load", job: 0, ticket: 0, worker: 0 },
      { kind: "load", job: 1, ticket: 0, worker: 0 },
    );
    world.run(loader, world.context());
    expect(reports().map(({ job }) => job)).toEqual([1, 0]);
    expect(loader.jobCounters.channelFull).toBeGreaterThan(0);
    expect(loader.counters.keys).toBe(104);
  });
});

describe("loads that fail", () => {
  test("a missing key gives a miss from its chunk on, and nothing behind it is asked for", () => {
    const { world, loader, reports } = start({ shape: { batchSlots: 1, keysPerBatchMax: 8 } });
    const hashPage = world.writeJob({ job: 0, kind: LOAD, first: 1, blocks: [range(1, 61)] });
    world.fillPool(hashPage, range(0, 61));
    world.pool.remove(world.key(0, 0, hashPage, 13));
    world.inbox.push({ kind: "load", job: 0, ticket: 0, worker: 0 });
    world.run(loader, world.context());
    expect(reports()).toMatchObject([
      { outcome: messages.OUTCOME_MISS, badChunk: 13, memoryBlocks: 15 },
    ]);
    expect(loader.counters.keys).toBe(16);
  });

  test("with rotated keys, what lies before the failure is still loaded", () => {
    const { world, loader, reports } = start({
      ranks: 4,
      shape: { batchSlots: 1, keysPerBatchMax: 2 },
    });
    const hashPage = world.writeJob({ job: 0, kind: LOAD, blocks: [range(0, 10)] });
    world.fillPool(hashPage, range(0, 10), 3);
    world.pool.remove(world.key(3, 0, hashPage, 5));
    world.inbox.push({ kind: "load", job: 0, ticket: 0, worker: 3 });
    world.run(loader, world.context());
    // Sent: 3 4, 5 6 (5 is missing), then the rotated start 0 1, 2.
    expect(loader.counters.keys).toBe(7);
    expect(reports()).toMatchObject([{ badChunk: 5, memoryBlocks: 6 }]);
    range(0, 5).forEach((chunk) => expect(world.block(0, chunk)[0]).toBe(100 + chunk));
  });

  test("batches already submitted are awaited before the report", () => {
    const { world, loader, reports } = start({ delayMsMax: 50 });
    const hashPage = world.writeJob({ job: 0, kind: LOAD, blocks: [range(0, 32)] });
    world.fillPool(hashPage, range(0, 32));
    world.pool.remove(world.key(0, 0, hashPage, 0));
    world.inbox.push({ kind: "load", job: 0, ticket: 0, worker: 0 });
    const context = world.context();
    for (let turns = 0; reports().length === 0 && turns < 1000; turns++) {
      world.step(loader, context);
      world.clock.nowMs = Math.min(world.clock.nextDueMs(), 1e6);
      world.clock.runDue();
    }
    expect(world.channel.inFlight()).toBe(0);
    expect(reports()).toMatchObject([{ outcome: messages.OUTCOME_MISS, badChunk: 0 }]);
  });

  test.each([
    [EngineCode.ENGINE_ERROR, messages.OUTCOME_ENGINE_ERROR],
    [EngineCode.ENGINE_DOWN, messages.OUTCOME_ENGINE_DOWN],
  ])("a batch with status %i fails all its keys", (status, outcome) => {
    const { world, loader, reports } = start();
    const hashPage = world.writeJob({ job: 0, kind: LOAD, first: 3, blocks: [range(0, 5)] });
    world.fillPool(hashPage, range(0, 8));
    world.faults = { batchStatus: () => status };
    world.inbox.push({ kind: "load", job: 0, ticket: 0, worker: 0 });
    world.run(loader, world.context());
    expect(reports()).toMatchObject([{ outcome, badChunk: 3, memoryBlocks: 0, kibibytes: 0 }]);
    expect(loader.counters.failedKeys).toBe(5);
  });

  test("a value of another size is a mismatch; what is gone, or was refused, is a miss", () => {
    for (const [code, outcome] of [
      [EngineCode.BUFFER_LARGER, messages.OUTCOME_IDENTITY_MISMATCH],
      [EngineCode.BUFFER_SMALLER, messages.OUTCOME_IDENTITY_MISMATCH],
      [EngineCode.CHECKSUM_MISMATCH, messages.OUTCOME_MISS],
      [EngineCode.REMOVED_UNDER_READ, messages.OUTCOME_MISS],
      [EngineCode.VALUE_UNREADABLE, messages.OUTCOME_MISS],
      [EngineCode.OBJECT_NOT_FOUND, messages.OUTCOME_MISS],
    ] as const) {
      const { world, loader, reports } = start();
      const hashPage = world.writeJob({ job: 0, kind: LOAD, blocks: [[1]] });
      world.fillPool(hashPage, [0]);
      world.faults = { keyResult: () => code };
      world.inbox.push({ kind: "load", job: 0, ticket: 0, worker: 0 });
      world.run(loader, world.context());
      expect(reports()).toMatchObject([{ outcome, badChunk: 0 }]);
    }
  });
});

describe("loads that are given up", () => {
  test("a cancelled load submits no more, awaits what is out, and reports CANCELLED", () => {
    const { world, loader, reports } = start({ shape: { batchSlots: 1, keysPerBatchMax: 4 } });
    const hashPage = world.writeJob({ job: 0, kind: LOAD, blocks: [range(0, 40)] });
    world.fillPool(hashPage, range(0, 40));
    const context = world.context();
    world.inbox.push({ kind: "load", job: 0, ticket: 0, worker: 0 });
    world.step(loader, context);
    world.inbox.push({ kind: "cancelLoad", job: 0, ticket: 0 });
    world.step(loader, context);
    expect(reports()).toEqual([]);
    world.run(loader, context);
    expect(reports()).toMatchObject([
      { outcome: messages.OUTCOME_CANCELLED, badChunk: 4, memoryBlocks: 4 },
    ]);
    expect(loader.idle()).toBe(true);
  });

  test("cancelled when everything is under way: what arrives counts", () => {
    const { world, loader, reports } = start();
    const hashPage = world.writeJob({ job: 0, kind: LOAD, blocks: [range(0, 4)] });
    world.fillPool(hashPage, range(0, 4));
    const context = world.context();
    world.inbox.push({ kind: "load", job: 0, ticket: 0, worker: 0 });
    world.step(loader, context);
    world.inbox.push({ kind: "cancelLoad", job: 0, ticket: 0 });
    world.run(loader, context);
    expect(reports()).toMatchObject([{ outcome: messages.OUTCOME_HIT, badChunk: layout.NONE }]);
  });

  test("a deadline ends a load as TIMEOUT at the next batch boundary", () => {
    const { world, loader, reports } = start({
      shape: { batchSlots: 1, keysPerBatchMax: 4 },
      delayMsMax: 100,
    });
    const hashPage = world.writeJob({
      job: 0,
      kind: LOAD,
      blocks: [range(0, 40)],
      deadlineMs: 120,
    });
    world.fillPool(hashPage, range(0, 40));
    world.inbox.push({ kind: "load", job: 0, ticket: 0, worker: 0 });
    world.run(loader, world.context());
    const [report] = reports();
    expect(report).toMatchObject({ outcome: messages.OUTCOME_TIMEOUT });
    expect(report?.badChunk).toBe(report?.memoryBlocks);
    expect(report?.badChunk).toBeLessThan(40);
    expect(loader.jobCounters.deadlines).toBe(1);
  });

  test("a deadline passes while the channel is full of others' batches", () => {
    const { world, loader, reports } = start({
      shape: { batchSlots: 1, keysPerBatchMax: 8 },
      delayMsMax: 1000,
    });
    world.faults = { slowness: () => 50 };
    const slow = world.writeJob({ job: 0, kind: LOAD, blocks: [range(0, 8)] });
    world.writeJob({ job: 1, kind: LOAD, first: 2, blocks: [[9]], deadlineMs: 10 });
    world.fillPool(slow, range(0, 8));
    world.inbox.push(
      { kind: "load", job: 0, ticket: 0, worker: 0 },
      { kind: "load", job: 1, ticket: 0, worker: 0 },
    );
    world.run(loader, world.context(), 20);
    expect(reports()).toMatchObject([
      { job: 1, outcome: messages.OUTCOME_TIMEOUT, badChunk: 2, memoryBlocks: 0 },
    ]);
  });

  test("a cancel for a load whose message was lost is answered", () => {
    const { world, loader, reports } = start();
    world.writeJob({ job: 2, kind: LOAD, first: 4, blocks: [[1, 2]] });
    world.inbox.push({ kind: "cancelLoad", job: 2, ticket: 0 });
    world.step(loader, world.context());
    expect(reports()).toMatchObject([{ job: 2, outcome: messages.OUTCOME_CANCELLED, badChunk: 4 }]);
  });
});

test("unknown jobs, workers, kinds and repeated messages are counted and dropped", () => {
  const { world, loader, reports } = start();
  const hashPage = world.writeJob({ job: 0, kind: LOAD, blocks: [[1]] });
  world.writeJob({ job: 1, kind: layout.JOB_KIND_SAVE, blocks: [[1]] });
  world.fillPool(hashPage, [0]);
  world.inbox.push(
    { kind: "load", job: 0, ticket: 0, worker: 0 },
    { kind: "load", job: 0, ticket: 0, worker: 0 },
    { kind: "load", job: 0, ticket: 0, worker: 7 },
    { kind: "load", job: 1, ticket: 0, worker: 0 },
    { kind: "load", job: 9, ticket: 0, worker: 0 },
    { kind: "load", job: -1, ticket: 0, worker: 0 },
    { kind: "cancelLoad", job: 9, ticket: 0 },
    { kind: "save", job: 0, ticket: 0, worker: 0 },
  );
  world.run(loader, world.context());
  expect(loader.jobCounters.staleMessages).toBe(7);
  expect(reports()).toMatchObject([{ job: 0, outcome: messages.OUTCOME_HIT }]);
});

test("after stop no new work is taken, what runs is finished or given up at the deadline", () => {
  const { world, loader, reports } = start({
    shape: { batchSlots: 1, keysPerBatchMax: 1 },
    delayMsMax: 40,
  });
  const hashPage = world.writeJob({ job: 0, kind: LOAD, blocks: [range(0, 30)] });
  world.writeJob({ job: 1, kind: LOAD, blocks: [[40]] });
  world.fillPool(hashPage, range(0, 30));
  const context = world.context();
  world.inbox.push(
    { kind: "load", job: 0, ticket: 0, worker: 0 },
    { kind: "stop", deadlineMs: 50 },
    { kind: "load", job: 1, ticket: 0, worker: 0 },
  );
  world.step(loader, context);
  expect(reports()).toMatchObject([{ job: 1, outcome: messages.OUTCOME_CANCELLED }]);
  expect(loader.idle()).toBe(false);
  world.run(loader, context);
  expect(reports()[1]).toMatchObject({ job: 0, outcome: messages.OUTCOME_CANCELLED });
  expect(loader.idle()).toBe(true);
});
