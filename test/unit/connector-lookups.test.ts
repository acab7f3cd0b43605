/**
 * Goal: a pool lookup parks its request at no cost, ends by its deadline at the latest, and ends typed. Method: a scheduler
 * side on real tables, with a clock and a message queue of the test; the test plays the lookup actor.
 */
import { describe, expect, test } from "vitest";
import {
  LOOKUP_ENGINE_ERROR,
  LOOKUP_IDENTITY_MISMATCH,
  NONE,
  REQUEST_FLAG_NO_REUSE,
  REQUEST_GENERATION,
} from "../../src/blocks/layout.ts";
import {
  ACTOR_LOOKUP,
  OUTCOME_ENGINE_DOWN,
  OUTCOME_ENGINE_ERROR,
  OUTCOME_HIT,
  OUTCOME_IDENTITY_MISMATCH,
  OUTCOME_MISS,
  OUTCOME_TIMEOUT,
} from "../../src/actors/messages.ts";
import { FAILURE_BASE, IN_FLIGHT } from "../../src/connector/hooks.ts";
import { ConnectorBench } from "./connector-bench.ts";

const ignore = (): void => undefined;

describe("lookups", () => {
  test("a request is parked, resumed by the answer, and asked once", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(IN_FLIGHT);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(IN_FLIGHT);
    const [lookup, ...more] = bench.take("lookup");
    expect(more).toEqual([]);
    expect(lookup).toMatchObject({ slot, tokens: 100, attempt: bench.attempt(slot) });
    expect(bench.hooks.inFlight(slot)).toBe(1);
    expect(bench.answerHit(slot, 64)).toBe(true);
    expect(bench.hooks.inFlight(slot)).toBe(0);
    expect(bench.hooks.matchedTokens(slot, 16)).toBe(48);
    expect(bench.hooks.outcome(slot)).toBe(OUTCOME_HIT);
    expect(bench.hooks.nextDeadlineMs()).toBe(Infinity);
    expect(bench.take("lookup")).toEqual([]);
  });

  test("a published answer counts before its message comes", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    bench.hooks.matchedTokens(slot, 0);
    bench.publishHit(slot, 0);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(0);
    expect(bench.hooks.outcome(slot)).toBe(OUTCOME_MISS);
    expect(bench.hooks.inFlight(slot)).toBe(1);
    expect(bench.lookupDone(slot)).toBe(false);
    expect(bench.hooks.inFlight(slot)).toBe(0);
    expect(bench.hooks.counters.staleMessages).toBe(0);
  });

  test("timeout: typed, visited once, the late answer is counted and changes nothing", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    bench.hooks.matchedTokens(slot, 0);
    expect(bench.hooks.nextDeadlineMs()).toBe(1_000);
    bench.nowMs = 999;
    bench.hooks.expire(() => expect.unreachable("nothing is overdue"));
    bench.nowMs = 1_000;
    const visited: [number, boolean][] = [];
    bench.hooks.expire((overdue, loadLost) => visited.push([overdue, loadLost]));
    bench.hooks.expire((overdue, loadLost) => visited.push([overdue, loadLost]));
    expect(visited).toEqual([[slot, false]]);
    expect(bench.take("discardLookup")).toHaveLength(1);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(FAILURE_BASE - OUTCOME_TIMEOUT);
    // The slot is held until the lookup actor has let go of its rows.
    expect(bench.hooks.inFlight(slot)).toBe(1);
    expect(bench.answerHit(slot, 64)).toBe(false);
    expect(bench.hooks.inFlight(slot)).toBe(0);
    expect(bench.hooks.counters.lateLookups).toBe(1);
    expect(bench.hooks.outcome(slot)).toBe(OUTCOME_TIMEOUT);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(FAILURE_BASE - OUTCOME_TIMEOUT);
  });

  test("after a preemption an older attempt's answer is not the new one's", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    bench.hooks.matchedTokens(slot, 0);
    const old = bench.attempt(slot);
    bench.hooks.preempted(slot);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(IN_FLIGHT);
    expect(bench.attempt(slot)).not.toBe(old);
    bench.publish(slot, 2, 64, old);
    expect(bench.lookupDone(slot, old)).toBe(false);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(IN_FLIGHT);
    expect(bench.answerHit(slot, 32)).toBe(true);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(32);
  });

  test("abort while the lookup is in flight: discarded, slot held until it is answered", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    bench.hooks.matchedTokens(slot, 0);
    bench.hooks.requestFinished(slot);
    expect(bench.take("discardLookup")).toMatchObject([{ slot, attempt: bench.attempt(slot) }]);
    expect(bench.hooks.nextDeadlineMs()).toBe(Infinity);
    expect(bench.hooks.inFlight(slot)).toBe(1);
    bench.lookupDone(slot);
    expect(bench.hooks.inFlight(slot)).toBe(0);
  });

  test("duplicates and other generations are counted, logged and dropped", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    bench.hooks.matchedTokens(slot, 0);
    const generation = bench.request(slot, REQUEST_GENERATION);
    const attempt = bench.attempt(slot);
    const done = { kind: "lookupDone", slot, attempt } as const;
    expect(bench.sides.receive({ ...done, generation: generation - 1 })).toBe(false);
    expect(bench.hooks.inFlight(slot)).toBe(1);
    expect(bench.answerHit(slot, 16)).toBe(true);
    expect(bench.lookupDone(slot)).toBe(false);
    expect(bench.sides.receive({ kind: "hashed", slot, generation, blocks: 6 })).toBe(false);
    expect(bench.sides.receive({ ...done, slot: 4_000, generation })).toBe(false);
    expect(bench.hooks.counters.staleMessages).toBe(4);
    expect(bench.log).toHaveLength(4);
  });

  test("engine errors are typed and not a miss", () => {
    const bench = new ConnectorBench();
    for (const [state, outcome] of [
      [LOOKUP_ENGINE_ERROR, OUTCOME_ENGINE_ERROR],
      [LOOKUP_IDENTITY_MISMATCH, OUTCOME_IDENTITY_MISMATCH],
    ] as const) {
      const slot = bench.addRequest(100);
      bench.hooks.matchedTokens(slot, 0);
      bench.publish(slot, state, 0);
      expect(bench.lookupDone(slot)).toBe(true);
      expect(bench.hooks.matchedTokens(slot, 0)).toBe(FAILURE_BASE - outcome);
      expect(bench.hooks.outcome(slot)).toBe(outcome);
    }
  });

  test("an answer whose word was never published is an engine error", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    bench.hooks.matchedTokens(slot, 0);
    expect(bench.lookupDone(slot)).toBe(true);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(FAILURE_BASE - OUTCOME_ENGINE_ERROR);
  });

  test("an answer is used again for its lifetime, then asked anew", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    bench.hooks.matchedTokens(slot, 0);
    bench.answerHit(slot, 64);
    bench.nowMs = 5_000;
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(64);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(IN_FLIGHT);
  });

  test("nothing is asked where nothing can be found", () => {
    const off = new ConnectorBench({ settings: { enableLookup: false } });
    expect(off.hooks.matchedTokens(off.addRequest(100), 0)).toBe(0);
    expect(off.take("lookup")).toEqual([]);
    const bench = new ConnectorBench();
    expect(bench.hooks.matchedTokens(bench.addRequest(15), 0)).toBe(0);
    const cold = bench.addRequest(100, { flags: REQUEST_FLAG_NO_REUSE, hash: false });
    expect(bench.take("hashRequest")).toEqual([]);
    expect(bench.hooks.matchedTokens(cold, 0)).toBe(0);
    expect(bench.take("lookup")).toEqual([]);
  });

  test("min_load_tokens: a shorter load is computed", () => {
    const bench = new ConnectorBench({ settings: { minLoadTokens: 48 } });
    const slot = bench.addRequest(100);
    bench.hooks.matchedTokens(slot, 0);
    bench.answerHit(slot, 64);
    expect(bench.hooks.matchedTokens(slot, 32)).toBe(0);
    expect(bench.hooks.matchedTokens(slot, 16)).toBe(48);
  });

  test("lookup_async false: waits for the answer, and no longer than the deadline", () => {
    const waits: number[] = [];
    let answer = true;
    const bench: ConnectorBench = new ConnectorBench({
      settings: { lookupAsync: false },
      waitLookup: (slot, _seen, timeoutMs) => {
        waits.push(timeoutMs);
        if (answer && waits.length === 2) bench.publishHit(slot, 64);
        return timeoutMs > 400 ? timeoutMs - 400 : 0;
      },
    });
    const slot = bench.addRequest(100);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(64);
    expect(waits).toEqual([1_000, 600]);
    expect(bench.wakes).toBe(1);
    answer = false;
    const late = bench.addRequest(100);
    expect(bench.hooks.matchedTokens(late, 0)).toBe(FAILURE_BASE - OUTCOME_TIMEOUT);
    expect(waits).toEqual([1_000, 600, 1_000, 600, 200]);
  });

  test("a restarted lookup actor is asked for hashes again and answers the newest question once", () => {
    const bench = new ConnectorBench();
    const unhashed = bench.addRequest(100, { hash: false });
    const slot = bench.addRequest(100, { hash: false });
    expect(bench.take("hashRequest")).toHaveLength(2);
    bench.hooks.matchedTokens(slot, 0);
    bench.hooks.preempted(slot);
    bench.hooks.matchedTokens(slot, 0);
    expect(bench.hooks.inFlight(slot)).toBe(3);
    bench.sides.receive({ kind: "actorRestarted", actor: ACTOR_LOOKUP, epoch: 2 });
    expect(bench.take("hashRequest").map((message) => message.slot)).toEqual([unhashed, slot]);
    expect(bench.hooks.inFlight(slot)).toBe(2);
    expect(bench.answerHit(slot, 16)).toBe(true);
    expect(bench.hooks.inFlight(slot)).toBe(1);
  });
});

describe("an engine that fails", () => {
  function fail(bench: ConnectorBench, slot: number): void {
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(IN_FLIGHT);
    bench.publish(slot, LOOKUP_ENGINE_ERROR, 0);
    bench.lookupDone(slot);
  }

  test("three failures in a row: lookups answer at once, probes go through with back-off, one success ends it", () => {
    const bench = new ConnectorBench({ dimensions: { requestSlots: 32 } });
    for (let count = 0; count < 3; count++) fail(bench, bench.addRequest(100));
    expect(bench.hooks.health.down).toBe(true);
    bench.take("lookup");
    const refused = bench.addRequest(100);
    expect(bench.hooks.matchedTokens(refused, 0)).toBe(FAILURE_BASE - OUTCOME_ENGINE_DOWN);
    expect(bench.hooks.outcome(refused)).toBe(OUTCOME_ENGINE_DOWN);
    expect(bench.take("lookup")).toEqual([]);
    bench.nowMs = 100;
    const probe = bench.addRequest(100);
    expect(bench.hooks.matchedTokens(probe, 0)).toBe(IN_FLIGHT);
    const other = bench.addRequest(100);
    expect(bench.hooks.matchedTokens(other, 0)).toBe(FAILURE_BASE - OUTCOME_ENGINE_DOWN);
    bench.publish(probe, LOOKUP_ENGINE_ERROR, 0);
    bench.lookupDone(probe);
    bench.nowMs = 299;
    expect(bench.hooks.matchedTokens(bench.addRequest(100), 0)).toBe(
      FAILURE_BASE - OUTCOME_ENGINE_DOWN,
    );
    bench.nowMs = 300;
    const second = bench.addRequest(100);
    expect(bench.hooks.matchedTokens(second, 0)).toBe(IN_FLIGHT);
    bench.answerHit(second, 32);
    expect(bench.hooks.matchedTokens(second, 0)).toBe(32);
    expect(bench.hooks.health.down).toBe(false);
    expect(bench.hooks.matchedTokens(bench.addRequest(100), 0)).toBe(IN_FLIGHT);
    expect(bench.hooks.counters.engineDownAnswers).toBe(3);
  });

  test("a success in between starts the count again; timeouts count as failures", () => {
    const bench = new ConnectorBench({ dimensions: { requestSlots: 32 } });
    for (let round = 0; round < 2; round++) {
      fail(bench, bench.addRequest(100));
      fail(bench, bench.addRequest(100));
      const good = bench.addRequest(100);
      bench.hooks.matchedTokens(good, 0);
      bench.answerHit(good, 0);
    }
    expect(bench.hooks.health.down).toBe(false);
    for (let count = 0; count < 3; count++) bench.hooks.matchedTokens(bench.addRequest(100), 0);
    bench.nowMs += 1_000;
    bench.hooks.expire(ignore);
    expect(bench.hooks.health.down).toBe(true);
    expect(bench.hooks.counters.lookupTimeouts).toBe(3);
  });

  test("an aborted probe lets the next lookup be the probe", () => {
    const bench = new ConnectorBench({ dimensions: { requestSlots: 32 } });
    for (let count = 0; count < 3; count++) fail(bench, bench.addRequest(100));
    bench.nowMs = 100;
    const probe = bench.addRequest(100);
    bench.hooks.matchedTokens(probe, 0);
    bench.hooks.requestFinished(probe);
    expect(bench.hooks.matchedTokens(bench.addRequest(100), 0)).toBe(IN_FLIGHT);
    expect(bench.hooks.jobSlot(NONE)).toBe(NONE);
  });
});
