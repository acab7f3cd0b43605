/**
 * Goal: saves of hybrid models and of blocks that are several values put what the rule says, in batches of any size; marks, order,
 * pressure, deadlines and ends are those of other saves.
 * Method: planned job records on real tables, the real saver, the simulated engine on a virtual clock with scripted faults.
 */
import { describe, expect, test } from "vitest";
import * as messages from "../../src/actors/messages.ts";
import type { SaveDone } from "../../src/actors/messages.ts";
import { SaverActor } from "../../src/actors/saver/saver-actor.ts";
import * as layout from "../../src/blocks/layout.ts";
import type { HitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { EngineCode } from "../../src/store/engine.ts";
import {
  eventList,
  HYBRID,
  plannedWorld,
  rowsOf,
  SHARDED,
  valueKeys,
} from "./planned-transfers.ts";
import { BLOCK_BYTES, range, type ActorWorld, type WorldOptions } from "./store-world.ts";

const SAVE = layout.JOB_KIND_SAVE;

interface SaveOptions {
  readonly slot?: number;
  readonly generation?: number;
  readonly life?: number;
  readonly first?: number;
  readonly hashPage?: number;
  readonly deadlineMs?: number;
  readonly boundaryPuts?: readonly (readonly [number, number, number])[];
  readonly rows?: readonly (readonly number[])[];
}

function start(
  rules: HitRules,
  options: WorldOptions = {},
): {
  world: ActorWorld;
  saver: SaverActor;
  reports: () => SaveDone[];
  save: (job: number, tokens: number, more?: SaveOptions) => number;
} {
  const world = plannedWorld(rules, options);
  const saver = new SaverActor({ tables: world.tables, workers: world.workers, rules });
  const save = (job: number, tokens: number, more: SaveOptions = {}): number => {
    const { boundaryPuts = [], first = 1, rows = rowsOf(rules, tokens, first), ...given } = more;
    const hashes = Math.ceil(tokens / rules.hashBlockSize) + 2;
    const planned = { tokens, hashes, boundaryPuts };
    const hashPage = world.writeJob({ ...given, job, kind: SAVE, blocks: rows, planned });
    world.inbox.push({ kind: "save", job, ticket: 0, worker: 0 });
    return hashPage;
  };
  const reports = (): SaveDone[] => world.sent.filter((message) => message.kind === "saveDone");
  return { world, saver, reports, save };
}

describe("what is put", () => {
  test("every batch of questions is answered before the first put; all blocks that later hits need are there", () => {
    const { names, trace } = eventList();
    const { world, saver, reports, save } = start(HYBRID, {
      trace,
      shape: { batchSlots: 2, keysPerBatchMax: 3 },
    });
    const hashPage = save(0, 80, { boundaryPuts: [[2, 90, 80]] });
    world.run(saver, world.context());
    // Of 20 chunks the window's two groups of tokens need all: their segments are shorter than the window. One state.
    expect(reports()).toMatchObject([
      { outcome: messages.OUTCOME_HIT, writtenBlocks: 41, presentBlocks: 0, failedBlocks: 0 },
    ]);
    range(0, 20).forEach((chunk) => {
      expect(world.pool.peek(world.key(0, 0, hashPage, chunk))?.[0]).toBe(1 + chunk);
      expect(world.pool.peek(world.key(0, 1, hashPage, chunk))?.[0]).toBe(51 + chunk);
    });
    expect(world.pool.peek(world.key(0, 2, hashPage, 19))?.[0]).toBe(190);
    // The state first, whole; then the rest: its 14 questions, its 14 puts.
    const batches = names.filter((name) => name.endsWith("Submitted"));
    expect(batches).toEqual([
      "existsSubmitted",
      "putSubmitted",
      ...Array(14).fill("existsSubmitted"),
      ...Array(14).fill("putSubmitted"),
    ]);
    expect(names.lastIndexOf("existsDone")).toBeLessThan(
      names.indexOf("putSubmitted", names.indexOf("putDone")),
    );
    expect(saver.idle()).toBe(true);
  });

  test("null blocks, states without a block and hashes that are not there are left out", () => {
    const { world, saver, reports, save } = start(HYBRID);
    const rows = [range(1, 5), [0, 0, 3, 4], []];
    const hashPage = save(0, 16, { rows, boundaryPuts: [[2, 0, 16]] });
    world.run(saver, world.context());
    expect(reports()).toMatchObject([{ outcome: messages.OUTCOME_HIT, writtenBlocks: 6 }]);
    expect(world.pool.has(world.key(0, 1, hashPage, 1))).toBe(false);
    expect(world.pool.has(world.key(0, 2, hashPage, 3))).toBe(false);
  });

  test("a block of several values: only the value that is missing is put", () => {
    const { world, saver, reports, save } = start(SHARDED, { valuesPerBlock: 4 });
    const hashPage = save(0, 12);
    const [, second = ""] = valueKeys(world, 0, hashPage, 1);
    world.pool.put(second, new Uint8Array(BLOCK_BYTES / 4).fill(77));
    world.run(saver, world.context());
    expect(reports()).toMatchObject([{ writtenBlocks: 11, presentBlocks: 1, failedBlocks: 0 }]);
    const stored = valueKeys(world, 0, hashPage, 1).map((key) => world.pool.peek(key)?.[0]);
    expect(stored).toEqual([2, 77, 2, 2]);
  });
});

describe("what was saved before", () => {
  test("jobs start at token 0 and ask only for what is behind the mark; a failed job is done again", () => {
    const { world, saver, reports, save } = start(HYBRID);
    const context = world.context();
    const hashPage = save(0, 16);
    world.run(saver, context);
    expect(saver.counters.existsKeys).toBe(8);
    world.faults = { batchStatus: () => EngineCode.ENGINE_ERROR };
    save(1, 32, { hashPage });
    world.run(saver, context);
    expect(saver.counters.existsKeys).toBe(16);
    world.faults = {};
    save(2, 48, { hashPage });
    world.run(saver, context);
    expect(saver.counters.existsKeys).toBe(32);
    expect(reports().map(({ outcome, writtenBlocks }) => [outcome, writtenBlocks])).toEqual([
      [messages.OUTCOME_HIT, 8],
      [messages.OUTCOME_ENGINE_ERROR, 0],
      [messages.OUTCOME_HIT, 16],
    ]);
    save(3, 16, { hashPage, generation: 2 });
    world.run(saver, context);
    expect(saver.counters.existsKeys).toBe(40);
  });

  test("a preempted request saves again from its first token, because the pool may have lost what it had saved", () => {
    const { world, saver, reports, save } = start(HYBRID);
    const context = world.context();
    const hashPage = save(0, 16, { life: 4 });
    world.run(saver, context);
    expect(reports()[0]).toMatchObject({ writtenBlocks: 8 });
    world.pool.clear();
    save(1, 16, { hashPage, life: 5 });
    world.run(saver, context);
    expect(reports()[1]).toMatchObject({ outcome: messages.OUTCOME_HIT, writtenBlocks: 8 });
  });

  test("saves of one request that come at once follow one another; another request's goes beside them", () => {
    const { world, saver, reports, save } = start(HYBRID);
    const hashPage = save(0, 16);
    save(1, 32, { hashPage });
    save(2, 40, { hashPage });
    save(3, 16, { slot: 1, first: 60 });
    const context = world.context();
    world.step(saver, context);
    expect(world.channel.inFlight()).toBe(2);
    world.run(saver, context);
    expect(reports().map(({ outcome }) => outcome)).toEqual(Array(4).fill(messages.OUTCOME_HIT));
    expect(saver.counters).toMatchObject({ existsKeys: 28, putKeys: 28, presentBlocks: 0 });
    const order = reports().flatMap(({ job }) => (job === 3 ? [] : [job]));
    expect(order).toEqual([0, 1, 2]);
  });

  test("a job of a request that is over by now puts nothing", () => {
    const { world, saver, reports, save } = start(HYBRID);
    const context = world.context();
    save(0, 8, { generation: 5 });
    world.run(saver, context);
    save(1, 16, { generation: 4 });
    world.run(saver, context);
    expect(reports()[1]).toMatchObject({ outcome: messages.OUTCOME_CANCELLED, writtenBlocks: 0 });
    expect(saver.counters.existsKeys).toBe(4);
  });
});

describe("a pool without room", () => {
  test("what is not sent yet stays; the request is passed over until another's put succeeds", () => {
    const { world, saver, reports, save } = start(HYBRID, {
      shape: { batchSlots: 1, keysPerBatchMax: 4 },
      poolBytesMax: 6 * BLOCK_BYTES,
      poolEvicts: false,
    });
    const context = world.context();
    const hashPage = save(0, 40);
    world.run(saver, context);
    expect(reports()[0]).toMatchObject({
      outcome: messages.OUTCOME_NO_SPACE,
      writtenBlocks: 6,
      failedBlocks: 14,
    });
    expect(saver.counters.putKeys).toBe(8);
    const { batches } = saver.jobCounters;
    save(1, 48, { hashPage });
    world.run(saver, context);
    expect(reports()[1]).toMatchObject({ outcome: messages.OUTCOME_NO_SPACE, writtenBlocks: 0 });
    expect([saver.jobCounters.batches, saver.pressure.skipped]).toEqual([batches, 1]);
    world.pool.clear();
    save(2, 8, { slot: 1, first: 60 });
    world.run(saver, context);
    expect(saver.pressure.active).toBe(false);
    world.pool.clear();
    save(3, 8, { hashPage });
    world.run(saver, context);
    expect(reports()[3]).toMatchObject({ outcome: messages.OUTCOME_HIT, writtenBlocks: 4 });
  });
});

describe("saves that fail", () => {
  test("a state that fails: nothing else of the job is put", () => {
    const { world, saver, reports, save } = start(HYBRID);
    let puts = 0;
    world.faults = {
      keyResult: (operation) =>
        operation === layout.OPERATION_PUT && ++puts === 1 ? EngineCode.ENGINE_ERROR : 0,
    };
    save(0, 16, { boundaryPuts: [[2, 90, 16]] });
    world.run(saver, world.context());
    expect(reports()).toMatchObject([
      { outcome: messages.OUTCOME_ENGINE_ERROR, writtenBlocks: 0, failedBlocks: 1 },
    ]);
    expect(world.pool.size).toBe(0);
  });

  test("one of several batches of questions fails: nothing is put", () => {
    const { world, saver, reports, save } = start(HYBRID, {
      shape: { batchSlots: 1, keysPerBatchMax: 3 },
    });
    let asked = 0;
    world.faults = { batchStatus: () => (++asked === 2 ? EngineCode.ENGINE_DOWN : 0) };
    save(0, 40);
    world.run(saver, world.context());
    expect(reports()).toMatchObject([
      { outcome: messages.OUTCOME_ENGINE_DOWN, writtenBlocks: 0, failedBlocks: 20 },
    ]);
    // The rest of the questions was not asked either.
    expect(saver.counters).toMatchObject({ existsKeys: 6, putKeys: 0 });
  });

  test("the deadline: what is not sent is given up, what is in flight is awaited, who waits is reported", () => {
    const { world, saver, reports, save } = start(HYBRID, {
      shape: { batchSlots: 1, keysPerBatchMax: 4 },
      delayMsMax: 100,
    });
    const hashPage = save(0, 120, { deadlineMs: 700 });
    save(1, 128, { hashPage, deadlineMs: 10 });
    world.run(saver, world.context());
    const [waiting, running] = reports();
    expect(waiting).toMatchObject({
      job: 1,
      outcome: messages.OUTCOME_TIMEOUT,
      writtenBlocks: 0,
    });
    expect(running).toMatchObject({ job: 0, outcome: messages.OUTCOME_TIMEOUT });
    expect(running?.writtenBlocks).toBe(world.pool.size);
    expect(world.channel.inFlight()).toBe(0);
    save(2, 8, { hashPage });
    world.run(saver, world.context());
    expect(reports()[2]).toMatchObject({ job: 2, outcome: messages.OUTCOME_HIT });
  });

  test("a deadline when all puts are under way changes nothing", () => {
    const { world, saver, reports, save } = start(HYBRID, { delayMsMax: 100 });
    save(0, 16, { deadlineMs: 130 });
    const context = world.context();
    world.faults = { slowness: () => 1 };
    while (saver.counters.putKeys === 0) {
      world.step(saver, context);
      world.clock.nowMs = Math.min(world.clock.nextDueMs(), 129);
      world.clock.runDue();
    }
    world.clock.nowMs = 131;
    world.run(saver, context);
    expect(reports()).toMatchObject([{ outcome: messages.OUTCOME_HIT, writtenBlocks: 8 }]);
  });

  test("a stop refuses new jobs and those that wait", () => {
    const { world, saver, reports, save } = start(HYBRID, { delayMsMax: 100 });
    const context = world.context();
    const hashPage = save(0, 16);
    save(1, 32, { hashPage });
    world.step(saver, context);
    world.inbox.push({ kind: "stop", deadlineMs: 1 });
    save(2, 8, { slot: 1 });
    world.run(saver, context);
    expect(saver.idle()).toBe(true);
    expect(reports().map(({ job, outcome }) => [job, outcome])).toEqual([
      [2, messages.OUTCOME_CANCELLED],
      [1, messages.OUTCOME_CANCELLED],
      [0, messages.OUTCOME_CANCELLED],
    ]);
  });
});

test("ranks with equal bytes share chunks and states", () => {
  const { world, saver, reports, save } = start(HYBRID, { ranks: 2, putStep: 2 });
  const hashPage = save(0, 48, { boundaryPuts: [[2, 90, 48]] });
  world.inbox.push({ kind: "save", job: 0, ticket: 0, worker: 1 });
  world.run(saver, world.context());
  expect(reports().map(({ outcome }) => outcome)).toEqual([0, 0].map(() => messages.OUTCOME_HIT));
  expect(reports().reduce((all, { writtenBlocks }) => all + writtenBlocks, 0)).toBe(25);
  range(0, 12).forEach((chunk) =>
    expect(world.pool.has(world.key(0, 0, hashPage, chunk))).toBe(true),
  );
  expect(world.pool.has(world.key(0, 2, hashPage, 11))).toBe(true);
});
