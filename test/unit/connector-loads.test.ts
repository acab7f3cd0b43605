/**
 * Goal: blocks of a load stay pinned until every engine has let go, failed loads are cut and not retried in a circle. Method:
 * both sides on real tables with the test as loader and scheduler.
 */
import { describe, expect, test } from "vitest";
import { JOB_LOCAL_TOKENS, JOB_TOKENS, NONE } from "../../src/blocks/layout.ts";
import {
  OUTCOME_BACK_PRESSURE,
  OUTCOME_CANCELLED,
  OUTCOME_ENGINE_ERROR,
  OUTCOME_HIT,
  OUTCOME_TIMEOUT,
} from "../../src/actors/messages.ts";
import { FAILURE_BASE, IN_FLIGHT } from "../../src/connector/hooks.ts";
import { ConnectorBench } from "./connector-bench.ts";
import { apply, BLOCKS, loadDone, startLoad, startSave } from "./connector-steps.ts";

describe("loads", () => {
  test("a load holds exactly the chunks behind the local ones, and lets go when every rank has reported", () => {
    const bench = new ConnectorBench({ ranks: 2 });
    const slot = bench.addRequest(100);
    const job = startLoad(bench, slot, 64, 32);
    expect(bench.chunks(job)).toEqual({ first: 2, count: 2 });
    expect(bench.row(job)).toEqual([12, 13]);
    expect([bench.job(job, JOB_LOCAL_TOKENS), bench.job(job, JOB_TOKENS)]).toEqual([32, 64]);
    expect(bench.take("load").map((message) => message.worker)).toEqual([0, 1]);
    expect(bench.pinnedBlocks()).toEqual([12, 13]);
    expect(loadDone(bench, job, OUTCOME_HIT, NONE, 1)).toBe(true);
    expect(apply(bench).doneLoadCount).toBe(0);
    expect(loadDone(bench, job, OUTCOME_HIT, NONE, 0)).toBe(true);
    const output = apply(bench);
    expect([output.doneLoadCount, output.badChunks[0], output.loadOutcomes[0]]).toEqual([
      1,
      NONE,
      OUTCOME_HIT,
    ]);
    expect(bench.hooks.jobSlot(job)).toBe(slot);
    expect(bench.pinnedBlocks()).toEqual([]);
    expect([bench.hooks.inFlight(slot), bench.hooks.liveJobs()]).toEqual([0, 0]);
    expect(bench.hooks.outcome(slot)).toBe(OUTCOME_HIT);
  });

  test("ranks disagree: first bad chunk and worst outcome count", () => {
    const bench = new ConnectorBench({ ranks: 3 });
    const job = startLoad(bench, bench.addRequest(100), 64);
    loadDone(bench, job, OUTCOME_ENGINE_ERROR, 3, 0);
    loadDone(bench, job, OUTCOME_HIT, NONE, 1);
    loadDone(bench, job, OUTCOME_TIMEOUT, 2, 2);
    const output = apply(bench);
    expect([output.badChunks[0], output.loadOutcomes[0]]).toEqual([2, OUTCOME_TIMEOUT]);
  });

  test("a failed load is cut at the first bad chunk and the request is not looked up again", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    const job = startLoad(bench, slot, 64);
    loadDone(bench, job, OUTCOME_ENGINE_ERROR, 1);
    const output = apply(bench);
    expect([output.badChunks[0], output.loadOutcomes[0]]).toEqual([1, OUTCOME_ENGINE_ERROR]);
    expect(bench.hooks.outcome(slot)).toBe(OUTCOME_ENGINE_ERROR);
    bench.take("lookup");
    expect(bench.hooks.matchedTokens(slot, 16)).toBe(FAILURE_BASE - OUTCOME_ENGINE_ERROR);
    bench.hooks.preempted(slot);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(FAILURE_BASE - OUTCOME_ENGINE_ERROR);
    expect(bench.take("lookup")).toEqual([]);
    // What is computed instead is saved, from the first chunk on.
    expect(bench.chunks(startSave(bench, slot, 84, 16))).toEqual({ first: 0, count: 6 });
  });

  test("a load that failed as a whole is bad from its first chunk on", () => {
    const bench = new ConnectorBench();
    const job = startLoad(bench, bench.addRequest(100), 64, 32);
    loadDone(bench, job, OUTCOME_ENGINE_ERROR);
    expect(apply(bench).badChunks[0]).toBe(2);
  });

  test("abort while loading: cancelled, its blocks quarantined until the loader answers, its result nobody's", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    const job = startLoad(bench, slot, 64);
    bench.hooks.requestFinished(slot);
    expect(bench.take("cancelLoad")).toEqual([{ kind: "cancelLoad", job, ticket: 1 }]);
    expect(bench.pinnedBlocks()).toEqual([10, 11, 12, 13]);
    expect([bench.hooks.quarantinedBlocks(), bench.hooks.inFlight(slot)]).toEqual([4, 1]);
    loadDone(bench, job, OUTCOME_CANCELLED, 0);
    apply(bench);
    expect(bench.hooks.jobSlot(job)).toBe(NONE);
    expect(bench.pinnedBlocks()).toEqual([]);
    expect([bench.hooks.quarantinedBlocks(), bench.hooks.inFlight(slot)]).toEqual([0, 0]);
  });

  test("a load that was never announced is gone at once", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    bench.hooks.matchedTokens(slot, 0);
    bench.answerHit(slot, 32);
    bench.hooks.matchedTokens(slot, 0);
    bench.setRow(slot, [1, 2]);
    bench.hooks.blocksAllocated(slot, 32);
    bench.hooks.preempted(slot);
    expect(bench.pinnedBlocks()).toEqual([]);
    expect(bench.take("cancelLoad")).toEqual([]);
    expect(bench.hooks.buildMetadata().loadCount).toBe(0);
    expect(bench.hooks.inFlight(slot)).toBe(0);
  });

  test("an overdue load is cancelled once and ends as TIMEOUT when it is acknowledged", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    const job = startLoad(bench, slot, 64);
    expect(bench.hooks.nextDeadlineMs()).toBe(30_000);
    bench.nowMs = 30_000;
    bench.hooks.expire(() => expect.unreachable("the load goes on waiting"));
    bench.hooks.expire(() => expect.unreachable("the load goes on waiting"));
    expect(bench.take("cancelLoad")).toHaveLength(1);
    expect(bench.hooks.loading(slot)).toBe(true);
    loadDone(bench, job, OUTCOME_CANCELLED, 1);
    const output = apply(bench);
    expect([output.badChunks[0], output.loadOutcomes[0]]).toEqual([1, OUTCOME_TIMEOUT]);
    expect(bench.hooks.outcome(slot)).toBe(OUTCOME_TIMEOUT);
    expect(bench.hooks.nextDeadlineMs()).toBe(Infinity);
  });

  test("loads that their engine does not give back keep others from loading in the end, by a name of its own", () => {
    for (const aborted of [false, true]) {
      const bench = new ConnectorBench({ dimensions: { blockCount: 17 } });
      const slot = bench.addRequest(100);
      const job = startLoad(bench, slot, 96);
      const other = bench.addRequest(100);
      if (aborted) bench.hooks.requestFinished(slot);
      expect(bench.hooks.matchedTokens(other, 0)).toBe(IN_FLIGHT);
      bench.answerHit(other, 64);
      // It may still be answered, so nobody is kept from anything.
      expect(bench.hooks.matchedTokens(other, 0)).toBe(64);
      bench.hooks.buildMetadata();
      for (const now of [30_000, 60_000]) {
        bench.nowMs = now;
        bench.hooks.expire(() => undefined);
      }
      const late = bench.addRequest(100);
      bench.hooks.matchedTokens(late, 0);
      bench.answerHit(late, 64);
      expect(bench.hooks.matchedTokens(late, 0)).toBe(FAILURE_BASE - OUTCOME_BACK_PRESSURE);
      expect(bench.hooks.outcome(late)).toBe(OUTCOME_BACK_PRESSURE);
      if (!aborted) bench.hooks.preempted(slot);
      loadDone(bench, job, OUTCOME_CANCELLED, 0);
      apply(bench);
      expect(bench.hooks.matchedTokens(late, 0)).toBe(64);
    }
  });

  test("an engine that never acknowledges loses the request, not the blocks", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    const job = startLoad(bench, slot, 64);
    const visited: [number, boolean][] = [];
    for (const now of [30_000, 60_000]) {
      bench.nowMs = now;
      bench.hooks.expire((overdue, loadLost) => visited.push([overdue, loadLost]));
    }
    expect(visited).toEqual([[slot, true]]);
    expect(bench.hooks.loading(slot)).toBe(false);
    bench.hooks.preempted(slot);
    expect(bench.take("cancelLoad")).toHaveLength(1);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(FAILURE_BASE - OUTCOME_TIMEOUT);
    expect(bench.pinnedBlocks()).toEqual([10, 11, 12, 13]);
    loadDone(bench, job, OUTCOME_HIT);
    apply(bench);
    expect([bench.hooks.jobSlot(job), bench.hooks.quarantinedBlocks()]).toEqual([NONE, 0]);
  });

  test("an offer is all or nothing, and good for one step", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    bench.hooks.matchedTokens(slot, 0);
    bench.answerHit(slot, 64);
    bench.hooks.matchedTokens(slot, 0);
    bench.setRow(slot, BLOCKS);
    expect(() => bench.hooks.blocksAllocated(slot, 48)).toThrowError(
      /externalTokens: must be 0 or the 64 tokens/,
    );
    bench.hooks.buildMetadata();
    expect(() => bench.hooks.blocksAllocated(slot, 64)).toThrowError(/externalTokens/);
    expect(bench.pinnedBlocks()).toEqual([]);
  });

  test("three failed loads in a row stop lookups", () => {
    const bench = new ConnectorBench();
    for (let count = 0; count < 3; count++) {
      const job = startLoad(bench, bench.addRequest(100), 32);
      loadDone(bench, job, OUTCOME_ENGINE_ERROR, 0);
      apply(bench);
    }
    expect(bench.hooks.health.down).toBe(true);
  });

  test("load_async false: the step has sync loads, and a request never loads and saves in one step", () => {
    const bench = new ConnectorBench({ settings: { loadAsync: false } });
    const slot = bench.addRequest(100);
    bench.hooks.matchedTokens(slot, 0);
    bench.answerHit(slot, 64);
    expect(bench.hooks.matchedTokens(slot, 0)).toBe(64);
    bench.setRow(slot, BLOCKS);
    bench.hooks.blocksAllocated(slot, 64);
    bench.hooks.scheduled(slot, 64, 36);
    const metadata = bench.hooks.buildMetadata();
    expect([metadata.loadCount, metadata.saveCount, metadata.hasSyncLoads]).toEqual([1, 0, true]);
  });
});
