/**
 * Goal: while the pool is closed to this member, is not known, or is being reset, nothing is asked of it and nothing saved to it; what
 * was held back is saved afterwards.
 * Method: a scheduler side on real tables whose membership the test sets.
 */
import { expect, test } from "vitest";
import { NONE } from "../../src/blocks/layout.ts";
import {
  OUTCOME_CANCELLED,
  OUTCOME_ENGINE_DOWN,
  OUTCOME_HIT,
  OUTCOME_IDENTITY_MISMATCH,
} from "../../src/actors/messages.ts";
import { FAILURE_BASE, IN_FLIGHT } from "../../src/connector/hooks.ts";
import {
  MEMBERSHIP_CLOSED,
  MEMBERSHIP_OPEN,
  MEMBERSHIP_PAUSED,
  MEMBERSHIP_UNKNOWN,
} from "../../src/connector/membership.ts";
import { ConnectorBench } from "./connector-bench.ts";
import { apply, saveDone, startSave } from "./connector-steps.ts";

function world(membership: number) {
  const state = { membership };
  const bench = new ConnectorBench({ readMembership: () => state.membership });
  return { state, bench };
}

test.each([
  ["closed", MEMBERSHIP_CLOSED, OUTCOME_IDENTITY_MISMATCH],
  ["not known", MEMBERSHIP_UNKNOWN, OUTCOME_ENGINE_DOWN],
])("%s: lookups are answered at once, typed, and ask nobody", (_what, membership, outcome) => {
  const { bench, state } = world(membership);
  const slot = bench.addRequest(100);
  expect(bench.hooks.matchedTokens(slot, 0)).toBe(FAILURE_BASE - outcome);
  expect(bench.hooks.outcome(slot)).toBe(outcome);
  expect(bench.take("lookup")).toEqual([]);
  expect(bench.hooks.inFlight(slot)).toBe(0);
  expect(bench.hooks.nextDeadlineMs()).toBe(Infinity);
  // The request computes; the next one asks again once it may.
  state.membership = MEMBERSHIP_OPEN;
  expect(bench.hooks.matchedTokens(slot, 0)).toBe(FAILURE_BASE - outcome);
  expect(bench.hooks.matchedTokens(bench.addRequest(100), 0)).toBe(IN_FLIGHT);
});

test("closed while a lookup is in flight: it is given up, its answer is late and drains", () => {
  const { bench, state } = world(MEMBERSHIP_OPEN);
  const slot = bench.addRequest(100);
  expect(bench.hooks.matchedTokens(slot, 0)).toBe(IN_FLIGHT);
  state.membership = MEMBERSHIP_CLOSED;
  const mismatch = FAILURE_BASE - OUTCOME_IDENTITY_MISMATCH;
  expect(bench.hooks.matchedTokens(slot, 0)).toBe(mismatch);
  expect(bench.take("discardLookup")).toHaveLength(1);
  expect(bench.hooks.inFlight(slot)).toBe(1);
  bench.answerHit(slot, 64);
  expect(bench.hooks.matchedTokens(slot, 0)).toBe(mismatch);
  expect(bench.hooks.inFlight(slot)).toBe(0);
});

test("closed after an answer: the answer is void", () => {
  const { bench, state } = world(MEMBERSHIP_OPEN);
  const slot = bench.addRequest(100);
  bench.hooks.matchedTokens(slot, 0);
  bench.answerHit(slot, 64);
  expect(bench.hooks.matchedTokens(slot, 0)).toBe(64);
  bench.hooks.blocksAllocated(slot, 0);
  bench.hooks.buildMetadata();
  state.membership = MEMBERSHIP_CLOSED;
  expect(bench.hooks.matchedTokens(slot, 0)).toBe(FAILURE_BASE - OUTCOME_IDENTITY_MISMATCH);
});

test("closed: no save is made; open again, the next step makes it, decoding or not", () => {
  const { bench, state } = world(MEMBERSHIP_CLOSED);
  const slot = bench.addRequest(64);
  expect(startSave(bench, slot, 64)).toBe(NONE);
  expect(bench.hooks.liveJobs()).toBe(0);
  state.membership = MEMBERSHIP_OPEN;
  bench.setTokens(slot, 65);
  const job = startSave(bench, slot, 1, 64);
  expect(job).not.toBe(NONE);
  saveDone(bench, job, OUTCOME_HIT);
  apply(bench);
  expect(bench.hooks.liveJobs()).toBe(0);
});

test.each(["the loop's own", "another's"])(
  "amid %s reset: lookups are cancelled at once, answers forgotten, saves wait",
  (whose) => {
    const { bench, state } = world(MEMBERSHIP_OPEN);
    const [answered, fresh] = [bench.addRequest(100), bench.addRequest(64)];
    bench.hooks.matchedTokens(answered, 0);
    bench.answerHit(answered, 64);
    bench.take("lookup");
    const own = whose === "the loop's own";
    if (own) bench.hooks.gate.pause();
    else state.membership = MEMBERSHIP_PAUSED;
    expect(bench.hooks.matchedTokens(fresh, 0)).toBe(FAILURE_BASE - OUTCOME_CANCELLED);
    expect(startSave(bench, fresh, 64)).toBe(NONE);
    if (own) bench.hooks.gate.resume();
    else state.membership = MEMBERSHIP_OPEN;
    // What it had found before is not used: it asks anew.
    expect(bench.hooks.matchedTokens(answered, 0)).toBe(IN_FLIGHT);
    expect(bench.take("lookup")).toHaveLength(1);
    bench.setTokens(fresh, 65);
    expect(startSave(bench, fresh, 1, 64)).not.toBe(NONE);
  },
);

test("a reset that begins while a save is written down: the save is taken back and made later", () => {
  let looks = 0;
  const bench = new ConnectorBench({
    // Open at the look before the save is written, paused at the one after.
    readMembership: () => (++looks === 2 ? MEMBERSHIP_PAUSED : MEMBERSHIP_OPEN),
  });
  const slot = bench.addRequest(64);
  expect(startSave(bench, slot, 64)).toBe(NONE);
  expect(looks).toBe(2);
  expect(bench.hooks.liveJobs()).toBe(0);
  expect(bench.pinnedBlocks()).toEqual([]);
  bench.setTokens(slot, 65);
  const job = startSave(bench, slot, 1, 64);
  expect(bench.pinnedBlocks()).toHaveLength(5);
  saveDone(bench, job, OUTCOME_HIT);
  apply(bench);
  expect(bench.hooks.liveJobs()).toBe(0);
});
