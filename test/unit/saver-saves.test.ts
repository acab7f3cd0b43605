/**
 * Goal: save jobs put exactly the missing keys of this rank, with the bytes that the blocks hold between submit and completion;
 * a full pool, failures and deadlines end a job in a typed way, and the report always comes.
 * Method: real tables and the simulated engine on a virtual clock, with scripted faults.
 */
import { describe, expect, test } from "vitest";

import * as messages from "../../src/actors/messages.ts";
import type { SaveDone } from "../../src/actors/messages.ts";
import { SaverActor } from "../../src/actors/saver/saver-actor.ts";
import { putChunkCount, putsChunk } from "../../src/keys/striping.ts";
import * as layout from "../../src/blocks/layout.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { ActorWorld, BLOCK_BYTES, range, type WorldOptions } from "./store-world.ts";

const SAVE = layout.JOB_KIND_SAVE;

function start(options: WorldOptions = {}): {
  world: ActorWorld;
  saver: SaverActor;
  reports: () => SaveDone[];
} {
  const world = new ActorWorld(options);
  const saver = new SaverActor({
    tables: world.tables,
    workers: world.workers,
    rules: world.rules,
  });
  range(0, world.tables.dimensions.blockCount).forEach((block) =>
    range(0, world.tables.dimensions.groups).forEach((group) =>
      world.block(group, block).fill(block + group),
    ),
  );
  return {
    world,
    saver,
    reports: () => world.sent.filter((message) => message.kind === "saveDone"),
  };
}
function save(world: ActorWorld, ...jobs: number[]): void {
  for (const job of jobs) world.inbox.push({ kind: "save", job, ticket: 0, worker: 0 });
}

describe("saves that succeed", () => {
  test("every missing block is written once, present ones are left alone", () => {
    const { world, saver, reports } = start();
    const blocks = range(0, 130).map((index) => 10 + index);
    const hashPage = world.writeJob({ job: 2, kind: SAVE, first: 3, blocks: [blocks] });
    world.fillPool(hashPage, range(3, 40));
    save(world, 2);
    world.run(saver, world.context());
    expect(reports()).toMatchObject([
      {
        job: 2,
        outcome: messages.OUTCOME_HIT,
        writtenBlocks: 93,
        presentBlocks: 37,
        failedBlocks: 0,
        kibibytes: Math.round((93 * BLOCK_BYTES) / 1024),
      },
    ]);
    range(40, 133).forEach((chunk) =>
      expect(world.pool.peek(world.key(0, 0, hashPage, chunk))?.[0]).toBe(10 + chunk - 3),
    );
    expect(world.pool.peek(world.key(0, 0, hashPage, 39))?.[0]).toBe(139);
    expect(saver.counters.putKeys).toBe(93);
    expect(saver.counters.existsKeys).toBe(130);
    expect(saver.idle()).toBe(true);
  });

  test("one exists batch where it fits, and no put when everything is there", () => {
    const { world, saver, reports } = start();
    const hashPage = world.writeJob({ job: 0, kind: SAVE, blocks: [range(0, 8)] });
    world.fillPool(hashPage, range(0, 8));
    save(world, 0);
    world.run(saver, world.context());
    expect(saver.jobCounters.batches).toBe(1);
    expect(reports()).toMatchObject([
      { outcome: messages.OUTCOME_HIT, writtenBlocks: 0, presentBlocks: 8 },
    ]);
  });

  test("groups and several hash blocks a block", () => {
    const { world, saver, reports } = start({
      dimensions: { groups: 2, blockSize: 8, hashBlockSize: 4 },
    });
    const hashPage = world.writeJob({
      job: 0,
      kind: SAVE,
      first: 1,
      blocks: [range(1, 12), range(101, 112)],
    });
    save(world, 0);
    world.run(saver, world.context());
    expect(reports()).toMatchObject([{ writtenBlocks: 22 }]);
    range(0, 11).forEach((index) => {
      const row = 2 * (index + 1) + 1;
      expect(world.pool.peek(world.key(0, 0, hashPage, row))?.[0]).toBe(1 + index);
      expect(world.pool.peek(world.key(0, 1, hashPage, row))?.[0]).toBe(102 + index);
    });
  });

  test("ranks with identical bytes share the chunks", () => {
    const { world, saver, reports } = start({ ranks: 2, putStep: 2 });
    const hashPage = world.writeJob({ job: 0, kind: SAVE, first: 1, blocks: [range(0, 21)] });
    world.inbox.push(
      { kind: "save", job: 0, ticket: 0, worker: 0 },
      { kind: "save", job: 0, ticket: 0, worker: 1 },
    );
    world.run(saver, world.context());
    const written = reports().map(({ worker, writtenBlocks, failedBlocks }) => [
      worker,
      writtenBlocks,
      failedBlocks,
    ]);
    expect(written.toSorted((left, right) => (left[0] ?? 0) - (right[0] ?? 0))).toEqual([
      [0, 10, 0],
      [1, 11, 0],
    ]);
    range(1, 22).forEach((chunk) =>
      expect(world.pool.has(world.key(0, 0, hashPage, chunk))).toBe(true),
    );
    expect(world.jobState(0)).toBe(layout.JOB_STATE_DONE);
  });

  test("chunks to put are counted as they are chosen", () => {
    for (const step of [1, 2, 3, 5])
      for (const phase of range(0, step))
        for (const from of range(0, 7))
          for (const to of range(0, 15))
            expect(putChunkCount(from, to, step, phase)).toBe(
              range(from, to).filter((chunk) => putsChunk(chunk, step, phase)).length,
            );
  });

  test("many jobs at once share few batch slots", () => {
    const { world, saver, reports } = start({ shape: { batchSlots: 2, keysPerBatchMax: 3 } });
    range(0, 16).forEach((job) =>
      world.writeJob({
        job,
        kind: SAVE,
        slot: job % 8,
        generation: 1 + Math.floor(job / 8),
        blocks: [range(job * 10, job * 10 + 1 + (job % 9))],
      }),
    );
    save(world, ...range(0, 16));
    world.run(saver, world.context());
    expect(reports().map(({ outcome }) => outcome)).toEqual(Array(16).fill(messages.OUTCOME_HIT));
    const blocks = range(0, 16).reduce((sum, job) => sum + 1 + (job % 9), 0);
    expect(saver.counters.writtenBlocks).toBe(blocks);
    expect(world.pool.size).toBe(blocks);
  });
});

describe("saved high-water mark", () => {
  test("a later job of the request skips what is saved; a new request does not", () => {
    const { world, saver, reports } = start();
    const hashPage = world.writeJob({ job: 0, kind: SAVE, blocks: [range(0, 6)] });
    save(world, 0);
    const context = world.context();
    world.run(saver, context);
    world.writeJob({ job: 1, kind: SAVE, blocks: [range(0, 9)], hashPage });
    save(world, 1);
    world.run(saver, context);
    expect(saver.counters.existsKeys).toBe(9);
    expect(reports()[1]).toMatchObject({ writtenBlocks: 3, presentBlocks: 6, failedBlocks: 0 });
    world.writeJob({ job: 2, kind: SAVE, generation: 2, blocks: [range(0, 9)], hashPage });
    save(world, 2);
    world.run(saver, context);
    expect(saver.counters.existsKeys).toBe(18);
    expect(reports()[2]).toMatchObject({ writtenBlocks: 0, presentBlocks: 9 });
  });

  test("a preempted request saves everything again, because the pool may have lost what it had saved", () => {
    const { world, saver, reports } = start();
    const context = world.context();
    const hashPage = world.writeJob({ job: 0, kind: SAVE, life: 4, blocks: [range(0, 6)] });
    save(world, 0);
    world.run(saver, context);
    world.pool.clear();
    world.writeJob({ job: 1, kind: SAVE, life: 5, blocks: [range(0, 6)], hashPage });
    save(world, 1);
    world.run(saver, context);
    expect(reports()[1]).toMatchObject({ writtenBlocks: 6, presentBlocks: 0, failedBlocks: 0 });
  });

  test("a job of the life before the preemption that ends late marks nothing in this one", () => {
    const { world, saver, reports } = start();
    const context = world.context();
    const hashPage = world.writeJob({ job: 0, kind: SAVE, life: 4, blocks: [range(0, 6)] });
    world.writeJob({ job: 1, kind: SAVE, life: 5, blocks: [range(0, 6)], hashPage });
    save(world, 1, 0);
    world.run(saver, context);
    expect(saver.marks.end(0, 5, 0)).toBe(6);
    expect(saver.marks.end(0, 4, 0)).toBe(0);
    expect(reports().map(({ outcome }) => outcome)).toEqual([
      messages.OUTCOME_HIT,
      messages.OUTCOME_HIT,
    ]);
  });

  test("it does not move over a gap that a failed job left", () => {
    const { world, saver, reports } = start();
    const context = world.context();
    const hashPage = world.writeJob({ job: 0, kind: SAVE, blocks: [range(0, 4)] });
    world.faults = { batchStatus: () => EngineCode.ENGINE_ERROR };
    save(world, 0);
    world.run(saver, context);
    world.faults = {};
    world.writeJob({ job: 1, kind: SAVE, first: 4, blocks: [range(4, 8)], hashPage });
    save(world, 1);
    world.run(saver, context);
    world.writeJob({ job: 2, kind: SAVE, blocks: [range(0, 8)], hashPage });
    save(world, 2);
    world.run(saver, context);
    expect(reports().map(({ outcome, writtenBlocks }) => [outcome, writtenBlocks])).toEqual([
      [messages.OUTCOME_ENGINE_ERROR, 0],
      [messages.OUTCOME_HIT, 4],
      [messages.OUTCOME_HIT, 4],
    ]);
  });
});

describe("a pool without room", () => {
  test("refused puts end the job as NO_SPACE; the request is skipped until another's batch succeeds", () => {
    const { world, saver, reports } = start({ poolBytesMax: 4 * BLOCK_BYTES, poolEvicts: false });
    const context = world.context();
    world.writeJob({ job: 0, kind: SAVE, slot: 1, blocks: [range(0, 6)] });
    save(world, 0);
    world.run(saver, context);
    expect(reports()[0]).toMatchObject({
      outcome: messages.OUTCOME_NO_SPACE,
      writtenBlocks: 4,
      failedBlocks: 2,
    });
    const batches = saver.jobCounters.batches;
    world.writeJob({ job: 1, kind: SAVE, slot: 1, blocks: [range(0, 8)] });
    save(world, 1);
    world.run(saver, context);
    expect(reports()[1]).toMatchObject({ outcome: messages.OUTCOME_NO_SPACE, failedBlocks: 8 });
    expect(saver.jobCounters.batches).toBe(batches);
    expect(saver.pressure.skipped).toBe(1);
    world.pool.clear();
    world.writeJob({ job: 2, kind: SAVE, slot: 2, blocks: [range(20, 22)] });
    save(world, 2);
    world.run(saver, context);
    expect(saver.pressure.active).toBe(false);
    world.writeJob({ job: 3, kind: SAVE, slot: 1, blocks: [[30]] });
    save(world, 3);
    world.run(saver, context);
    expect(reports()[3]).toMatchObject({ outcome: messages.OUTCOME_HIT, writtenBlocks: 1 });
  });

  test("a new request in the same slot is not skipped", () => {
    const { world, saver, reports } = start({ poolBytesMax: BLOCK_BYTES, poolEvicts: false });
    const context = world.context();
    world.writeJob({ job: 0, kind: SAVE, slot: 1, generation: 1, blocks: [[1, 2]] });
    save(world, 0);
    world.run(saver, context);
    world.pool.clear();
    world.writeJob({ job: 1, kind: SAVE, slot: 1, generation: 2, blocks: [[3]] });
    save(world, 1);
    world.run(saver, context);
    expect(reports()[1]).toMatchObject({ outcome: messages.OUTCOME_HIT });
  });
});

describe("saves that fail", () => {
  test("an exists batch that fails puts nothing", () => {
    const { world, saver, reports } = start();
    world.writeJob({ job: 0, kind: SAVE, blocks: [range(0, 30)] });
    world.faults = { batchStatus: () => EngineCode.ENGINE_DOWN };
    save(world, 0);
    world.run(saver, world.context());
    expect(reports()).toMatchObject([
      { outcome: messages.OUTCOME_ENGINE_DOWN, writtenBlocks: 0, failedBlocks: 30 },
    ]);
    expect(world.pool.size).toBe(0);
    expect(saver.counters.putKeys).toBe(0);
  });

  test("a key that fails is counted, the others are written", () => {
    const { world, saver, reports } = start();
    world.writeJob({ job: 0, kind: SAVE, blocks: [range(0, 8)] });
    let puts = 0;
    world.faults = {
      keyResult: (operation) =>
        operation === layout.OPERATION_PUT && ++puts === 3 ? EngineCode.ENGINE_ERROR : 0,
    };
    save(world, 0);
    world.run(saver, world.context());
    expect(reports()).toMatchObject([
      { outcome: messages.OUTCOME_ENGINE_ERROR, writtenBlocks: 7, failedBlocks: 1 },
    ]);
  });

  test("a key that could not be asked for is put", () => {
    const { world, saver, reports } = start();
    world.writeJob({ job: 0, kind: SAVE, blocks: [range(0, 8)] });
    world.faults = {
      keyResult: (operation) =>
        operation === layout.OPERATION_EXISTS ? EngineCode.ENGINE_ERROR : 0,
    };
    save(world, 0);
    world.run(saver, world.context());
    expect(reports()).toMatchObject([{ outcome: messages.OUTCOME_HIT, writtenBlocks: 8 }]);
  });

  test("the deadline gives up what is not sent and awaits what is", () => {
    const { world, saver, reports } = start({
      shape: { batchSlots: 1, keysPerBatchMax: 4 },
      delayMsMax: 100,
    });
    world.writeJob({ job: 0, kind: SAVE, blocks: [range(0, 60)], deadlineMs: 200 });
    save(world, 0);
    world.run(saver, world.context());
    const [report] = reports();
    expect(report).toMatchObject({ outcome: messages.OUTCOME_TIMEOUT });
    expect(report!.writtenBlocks).toBe(world.pool.size);
    expect(report!.writtenBlocks + report!.failedBlocks).toBe(60);
    expect(report!.failedBlocks).toBeGreaterThan(0);
    expect(world.channel.inFlight()).toBe(0);
  });

  test("a deadline during the only exists batch puts nothing and says so", () => {
    const { world, saver, reports } = start({ delayMsMax: 100 });
    world.writeJob({ job: 0, kind: SAVE, blocks: [[1, 2]], deadlineMs: 1 });
    world.faults = { slowness: () => 50 };
    save(world, 0);
    world.run(saver, world.context());
    expect(reports()).toMatchObject([{ outcome: messages.OUTCOME_TIMEOUT, failedBlocks: 2 }]);
    expect(world.pool.size).toBe(0);
  });
});

test("the engine reads blocks only before saveDone", () => {
  const { world, saver, reports } = start({ delayMsMax: 50 });
  const hashPage = world.writeJob({ job: 0, kind: SAVE, blocks: [range(0, 20)] });
  save(world, 0);
  const context = world.context();
  for (let turns = 0; turns < 200; turns++) {
    world.step(saver, context);
    // From the report on, the blocks hold something else.
    if (reports().length > 0) world.memory.fill(255);
    if (world.clock.nextDueMs() === Infinity) break;
    world.clock.nowMs = world.clock.nextDueMs();
    world.clock.runDue();
  }
  range(0, 20).forEach((chunk) =>
    expect(world.pool.peek(world.key(0, 0, hashPage, chunk))?.[0]).toBe(chunk),
  );
});
