/**
 * Goal: a serving loop with its own scheduler drives the connector by vLLM's hooks with text ids, from one thread, without a
 * turn of the event loop. Method: real tables, real mailboxes; the test plays the actors between two calls.
 */
import { describe, expect, test } from "vitest";
import {
  ACTOR_LOOKUP,
  ACTOR_SAVER,
  OUTCOME_ENGINE_ERROR,
  OUTCOME_HIT,
} from "../../src/actors/messages.ts";
import { Connector } from "../../src/connector/connector.ts";
import { EmbeddedLoop } from "./embedded-loop.ts";

const PROMPT = Int32Array.from({ length: 100 }, (_, index) => index);

describe("a request that ends while its save is left out", () => {
  test("is saved when other saves end, without another step, and nothing is left", () => {
    const loop = new EmbeddedLoop();
    const { scheduler, worker } = loop.connector;
    const ids = Array.from({ length: 7 }, (_, index) => `request ${index}`);
    const prompt = PROMPT.subarray(0, 32);
    const run = (from: number): void =>
      loop.step(
        ids.map((id, index) => ({
          id,
          numComputedTokens: from,
          numScheduledTokens: 16,
          newBlockIds: [[1 + 2 * index + from / 16]],
        })),
      );
    for (const id of ids) scheduler.addRequest(id, prompt, { maxTokens: 2 });
    loop.hash(2);
    // Of 14 saves the job table has room for 12.
    for (const from of [0, 16]) run(from);
    for (const id of ids) scheduler.requestFinished(id);
    expect(loop.pins()).toEqual(Array.from({ length: 14 }, (_, index) => index + 1));
    expect(loop.save()).toBe(12);
    scheduler.updateConnectorOutput(worker.getFinished());
    expect(loop.save()).toBe(2);
    scheduler.updateConnectorOutput(worker.getFinished());
    expect(loop.pins()).toEqual([]);
    expect(loop.connector.gauges().counters).toMatchObject({ savesAfterEnd: 2, lostSaves: 0 });
    expect(loop.connector.idle()).toBe(true);
  });

  test("is not saved when the loop names it as finished in a step, because it has freed the blocks by then", () => {
    const loop = new EmbeddedLoop();
    const { scheduler } = loop.connector;
    scheduler.addRequest("one", PROMPT, { maxTokens: 2 });
    // Its hashes are not there yet.
    loop.step([
      {
        id: "one",
        numComputedTokens: 0,
        numScheduledTokens: 96,
        newBlockIds: [[1, 2, 3, 4, 5, 6]],
      },
    ]);
    scheduler.buildConnectorMeta({ scheduled: [], finished: ["one"] });
    expect(loop.pins()).toEqual([]);
    expect(loop.connector.gauges().counters.lostSaves).toBe(1);
  });
});

describe("the vLLM-named face", () => {
  test("miss, save, hit, load, end: nothing is left", () => {
    const loop = new EmbeddedLoop();
    const { scheduler, worker } = loop.connector;
    scheduler.addRequest("first", PROMPT, { maxTokens: 8 });
    loop.hash(6);
    expect(scheduler.getNumNewMatchedTokens("first", 0)).toEqual([null, false]);
    loop.find(0);
    expect(scheduler.getNumNewMatchedTokens("first", 0)).toEqual([0, false]);
    scheduler.updateStateAfterAlloc("first", [[1, 2, 3, 4]], 0);
    loop.step([{ id: "first", numComputedTokens: 0, numScheduledTokens: 64, newBlockIds: null }]);
    loop.step([
      { id: "first", numComputedTokens: 64, numScheduledTokens: 36, newBlockIds: [[5, 6, 7]] },
    ]);
    expect(scheduler.requestFinished("first", [[1, 2, 3, 4, 5, 6, 7]])).toEqual([false, null]);
    expect(loop.pins()).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(loop.connector.gauges()).toMatchObject({
      requests: 0,
      draining: 1,
      jobs: 2,
      quarantinedBlocks: 7,
    });
    expect(loop.save()).toBe(2);
    scheduler.updateConnectorOutput(worker.getFinished());
    expect([loop.pins(), loop.connector.idle(), loop.slots.usage().slots]).toEqual([[], true, 0]);

    scheduler.addRequest("second", [...PROMPT, 7]);
    loop.hash(6);
    expect(scheduler.getNumNewMatchedTokens("second", 16)).toEqual([null, false]);
    loop.find(96);
    expect(scheduler.getNumNewMatchedTokens("second", 16)).toEqual([80, true]);
    scheduler.updateStateAfterAlloc("second", [[1, 12, 13, 14, 15, 16]], 80);
    loop.step();
    expect(loop.pins()).toEqual([12, 13, 14, 15, 16]);
    expect(worker.getFinished().finishedRecving).toEqual([]);
    expect(loop.load(OUTCOME_HIT)).toBe(1);
    const finished = worker.getFinished();
    expect(finished).toMatchObject({
      finishedSending: [],
      finishedRecving: ["second"],
      invalidBlockIds: [],
    });
    scheduler.updateConnectorOutput(finished);
    expect(scheduler.outcome("second")).toBe("HIT");
    loop.step([
      { id: "second", numComputedTokens: 96, numScheduledTokens: 5, newBlockIds: [[17]] },
    ]);
    loop.save();
    scheduler.updateConnectorOutput(worker.getFinished());
    scheduler.buildConnectorMeta({ scheduled: [], finished: ["second", "never there"] });
    expect([loop.connector.idle(), loop.pins(), scheduler.takeEvents()]).toEqual([true, [], []]);
  });

  test("failed load: the blocks from the first bad one on are invalid", () => {
    const loop = new EmbeddedLoop();
    const { scheduler, worker } = loop.connector;
    scheduler.addRequest("a", PROMPT);
    loop.hash(6);
    scheduler.getNumNewMatchedTokens("a", 16);
    loop.find(96);
    scheduler.getNumNewMatchedTokens("a", 16);
    scheduler.updateStateAfterAlloc("a", [[1, 2, 3, 4, 5, 6]], 80);
    loop.step();
    loop.load(OUTCOME_ENGINE_ERROR, 3);
    const finished = worker.getFinished();
    expect(finished).toMatchObject({
      finishedRecving: ["a"],
      invalidBlockIds: [4, 5, 6],
      failedRecving: [],
      failedLoads: [{ id: "a", keptTokens: 48 }],
    });
    scheduler.updateConnectorOutput(finished);
    expect(scheduler.getNumNewMatchedTokens("a", 48)).toEqual([0, false]);
    expect(scheduler.outcome("a")).toBe("ENGINE_ERROR");
  });

  test("several groups: pins in every group, failures by request", () => {
    const loop = new EmbeddedLoop({}, 2);
    const { scheduler, worker } = loop.connector;
    scheduler.addRequest("a", PROMPT);
    loop.hash(6);
    scheduler.getNumNewMatchedTokens("a", 0);
    loop.find(32);
    scheduler.getNumNewMatchedTokens("a", 0);
    scheduler.updateStateAfterAlloc("a", loop.rows([1, 2]), 32);
    loop.step();
    expect(loop.pins()).toEqual([1, 2, 65, 66]);
    loop.load(OUTCOME_ENGINE_ERROR);
    const finished = worker.getFinished();
    expect(finished).toMatchObject({
      invalidBlockIds: [],
      failedRecving: ["a"],
      failedLoads: [{ id: "a", keptTokens: 0 }],
    });
    scheduler.updateConnectorOutput(finished);
    expect(loop.pins()).toEqual([]);
  });

  test("a step that is refused at its second request leaves nothing for the next one to save", () => {
    const loop = new EmbeddedLoop();
    const { scheduler, worker } = loop.connector;
    for (const id of ["a", "b"]) scheduler.addRequest(id, PROMPT, { maxTokens: 2 });
    loop.hash(6);
    const scheduled = (id: string, blocks: number[]) => ({
      id,
      numComputedTokens: 0,
      numScheduledTokens: 96,
      newBlockIds: [blocks],
    });
    expect(() =>
      scheduler.buildConnectorMeta({
        scheduled: [scheduled("a", [1, 2, 3, 4, 5, 6]), scheduled("b", [500])],
      }),
    ).toThrow(expect.objectContaining({ code: "INVALID_VALUE" }));
    worker.waitForSave(scheduler.buildConnectorMeta({ scheduled: [] }));
    expect(loop.take(ACTOR_SAVER, "save")).toEqual([]);
  });

  test("preempted requests come back with their generated tokens", () => {
    const loop = new EmbeddedLoop();
    const { scheduler } = loop.connector;
    scheduler.addRequest("a", PROMPT.subarray(0, 40), { maxTokens: 60 });
    loop.hash(2);
    scheduler.getNumNewMatchedTokens("a", 0);
    loop.find(0);
    scheduler.getNumNewMatchedTokens("a", 0);
    scheduler.updateStateAfterAlloc("a", [[1, 2, 3]], 0);
    loop.step([{ id: "a", numComputedTokens: 0, numScheduledTokens: 40, newBlockIds: null }]);
    scheduler.appendTokens(
      "a",
      Int32Array.from({ length: 24 }, () => 9),
    );
    scheduler.buildConnectorMeta({ scheduled: [], preempted: ["a"] });
    expect(scheduler.getNumNewMatchedTokens("a", 0)).toEqual([null, false]);
    const [lookup] = loop.take(ACTOR_LOOKUP, "lookup");
    expect(lookup?.tokens).toBe(64);
    expect(loop.hashed).toEqual([[2, 4]]);
    expect(() => scheduler.appendTokens("a", PROMPT)).toThrowError(/maxTokens/);
  });

  test.each([2 ** 32 + 5, 5.9, "5", Number.NaN, -1, 5n, undefined, Symbol("token")])(
    "generated token %s is refused, and nothing of its list is taken",
    (token) => {
      const loop = new EmbeddedLoop();
      const { scheduler } = loop.connector;
      scheduler.addRequest("a", PROMPT.subarray(0, 40), { maxTokens: 60 });
      const given = [7, token, 7] as number[];
      expect(() => scheduler.appendTokens("a", given)).toThrow(
        expect.objectContaining({ code: "INVALID_VALUE", field: "tokens[1]" }),
      );
      expect(() => scheduler.appendTokens("a", "7" as unknown as number[])).toThrow(
        expect.objectContaining({ code: "INVALID_TYPE", field: "tokens" }),
      );
      // The request has room for 60 tokens, and none of them is taken.
      scheduler.appendTokens(
        "a",
        Array.from({ length: 60 }, () => 7),
      );
    },
  );

  test("load_async false: waitForLoads blocks until the load is there, or the time is over", () => {
    const loop = new EmbeddedLoop({ loadAsync: false });
    const { scheduler, worker } = loop.connector;
    scheduler.addRequest("a", PROMPT);
    loop.hash(6);
    scheduler.getNumNewMatchedTokens("a", 0);
    loop.find(32);
    expect(scheduler.getNumNewMatchedTokens("a", 0)).toEqual([32, false]);
    scheduler.updateStateAfterAlloc("a", [[1, 2, 3, 4, 5, 6, 7]], 32);
    const meta = scheduler.buildConnectorMeta({
      scheduled: [{ id: "a", numComputedTokens: 32, numScheduledTokens: 68, newBlockIds: null }],
    });
    expect([meta.loadCount, meta.saveCount, meta.hasSyncLoads]).toEqual([1, 0, true]);
    worker.startLoadKv(meta);
    expect(worker.waitForLoads(0)).toBe(false);
    let looks = 0;
    loop.meanwhile = () => {
      loop.nowMs += 1;
      if (++looks === 6) loop.load(OUTCOME_HIT);
    };
    expect(worker.waitForLoads(20)).toBe(true);
    expect(worker.getFinished().finishedRecving).toEqual(["a"]);
  });

  test("lookup_async false: answered in the call, or TIMEOUT when the time is over", () => {
    const loop = new EmbeddedLoop({ lookupAsync: false, lookupTimeoutMs: 20 });
    const { scheduler } = loop.connector;
    scheduler.addRequest("a", PROMPT);
    let looks = 0;
    loop.meanwhile = () => {
      loop.nowMs += 1;
      if (++looks === 5) loop.find(64);
    };
    expect(scheduler.getNumNewMatchedTokens("a", 0)).toEqual([64, true]);
    scheduler.addRequest("b", PROMPT);
    expect(scheduler.getNumNewMatchedTokens("b", 0)).toEqual([0, false]);
    expect(scheduler.outcome("b")).toBe("TIMEOUT");
    expect(loop.connector.gauges().counters.staleMessages).toBe(0);
  });

  test("one thread at a time; after detach every call says so", () => {
    const loop = new EmbeddedLoop();
    expect(() => new Connector({ ...loop.ends, threadId: 3 })).toThrowError(
      /WRONG_THREAD|belongs to the thread/,
    );
    loop.ends.owner[0] = 4;
    expect(() => loop.connector.scheduler.outcome("a")).toThrowError(/belongs to the thread/);
    loop.ends.owner[0] = 1;
    loop.connector.detach();
    expect(() => loop.connector.worker.getFinished()).toThrowError(/is detached/);
    expect(new Connector({ ...loop.ends, threadId: 3 }).idle()).toBe(true);
  });

  test("bad input is named; unknown ids are counted and harmless", () => {
    const loop = new EmbeddedLoop();
    const { scheduler } = loop.connector;
    scheduler.addRequest("a", PROMPT);
    expect(() => scheduler.addRequest("a", PROMPT)).toThrowError(/id: is in use/);
    expect(() => scheduler.addRequest("b", new Int32Array(1_025))).toThrowError(
      /longer than the tables/,
    );
    expect(() => scheduler.addRequest("b", [])).toThrowError(/tokens: is empty/);
    expect(() => scheduler.updateStateAfterAlloc("a", [[1], [2]], 0)).toThrowError(
      /blockIds: must be 1 list/,
    );
    expect(() => scheduler.updateStateAfterAlloc("a", [[128]], 0)).toThrowError(
      /block ids from 0 to 127/,
    );
    expect(() => scheduler.updateStateAfterAlloc("a", [[0, 1]], 0)).toThrowError(
      /blockIds: must not hold the null block 0/,
    );
    for (let index = 0; index < 7; index++) scheduler.addRequest(`more ${index}`, PROMPT);
    expect(() => scheduler.addRequest("b", PROMPT)).toThrowError(/tables are full/);
    expect(scheduler.getNumNewMatchedTokens("x", 0)).toEqual([0, false]);
    expect(scheduler.requestFinished("x")).toEqual([false, null]);
    expect(scheduler.outcome("x")).toBe("NONE");
    expect(loop.connector.gauges()).toMatchObject({ unknownIds: 3, requests: 8 });
  });
});
