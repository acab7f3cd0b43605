/**
 * Goal: saves pin what they read until they are reported, follow role and settings, and full tables push back. Method: both
 * sides on real tables with the test as saver and scheduler.
 */
import { describe, expect, test } from "vitest";
import { JOB_LIFE, NONE, REQUEST_FLAG_NO_REUSE } from "../../src/blocks/layout.ts";
import {
  ACTOR_LOADER,
  OUTCOME_BACK_PRESSURE,
  OUTCOME_CANCELLED,
  OUTCOME_HIT,
  OUTCOME_NO_SPACE,
  OUTCOME_TIMEOUT,
} from "../../src/actors/messages.ts";
import { FAILURE_BASE } from "../../src/connector/hooks.ts";
import { ConnectorBench } from "./connector-bench.ts";
import type { BenchOptions } from "./connector-bench.ts";
import { apply, BLOCKS, loadDone, saveDone, startLoad, startSave } from "./connector-steps.ts";

describe("saves", () => {
  test("preemption and end while a save runs: the pins stay until it is reported", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    const job = startSave(bench, slot, 64);
    expect(bench.pinnedBlocks()).toEqual([10, 11, 12, 13]);
    bench.hooks.preempted(slot);
    bench.setRow(slot, [20]);
    expect(bench.row(job)).toEqual([10, 11, 12, 13]);
    expect([bench.hooks.quarantinedBlocks(), bench.hooks.inFlight(slot)]).toEqual([4, 1]);
    bench.hooks.requestFinished(slot);
    expect(bench.hooks.inFlight(slot)).toBe(1);
    saveDone(bench, job);
    apply(bench);
    expect(bench.pinnedBlocks()).toEqual([]);
    expect([bench.hooks.quarantinedBlocks(), bench.hooks.inFlight(slot)]).toEqual([0, 0]);
  });

  test("each life of a slot has a number of its own: of a request, and of one that was preempted", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(100);
    const job = startSave(bench, slot, 64);
    bench.hooks.preempted(slot);
    const again = startSave(bench, slot, 64);
    bench.hooks.requestFinished(slot);
    for (const each of [job, again]) saveDone(bench, each);
    apply(bench);
    const next = startSave(bench, bench.addRequest(100, { slot }), 64);
    const lives = [job, again, next].map((each) => bench.job(each, JOB_LIFE));
    expect(lives).toEqual([lives[0], lives[0]! + 1, lives[0]! + 2]);
  });

  test("job table full: the save is left out, the mark stays, and a later step saves it all the same", () => {
    const bench = new ConnectorBench({ dimensions: { jobSlots: 1 } });
    const first = bench.addRequest(16);
    const slot = bench.addRequest(100);
    const job = startSave(bench, first, 16);
    expect(startSave(bench, slot, 100)).toBe(NONE);
    expect(bench.hooks.counters.postponedSaves).toBe(1);
    saveDone(bench, job);
    apply(bench);
    // The request decodes by now, but what it owes is still due.
    bench.setTokens(slot, 101);
    bench.hooks.scheduled(slot, 100, 1);
    const metadata = bench.hooks.buildMetadata();
    expect(metadata.saveCount).toBe(1);
    expect(bench.chunks(metadata.saves[0]!)).toEqual({ first: 0, count: 6 });
    bench.setTokens(slot, 102);
    expect(startSave(bench, slot, 1, 101)).toBe(NONE);
    expect(bench.hooks.counters.postponedSaves).toBe(1);
  });

  test("job table full: loads are not offered, and offers of one step count", () => {
    const bench = new ConnectorBench({ dimensions: { jobSlots: 2 } });
    const [one, two, three] = [bench.addRequest(100), bench.addRequest(100), bench.addRequest(100)];
    for (const slot of [one, two, three]) {
      bench.hooks.matchedTokens(slot, 0);
      bench.answerHit(slot, 32);
    }
    expect(bench.hooks.matchedTokens(one, 0)).toBe(32);
    expect(bench.hooks.matchedTokens(two, 0)).toBe(32);
    expect(bench.hooks.matchedTokens(two, 0)).toBe(32);
    const pushedBack = FAILURE_BASE - OUTCOME_BACK_PRESSURE;
    expect(bench.hooks.matchedTokens(three, 0)).toBe(pushedBack);
    expect(bench.hooks.outcome(three)).toBe(OUTCOME_BACK_PRESSURE);
    expect(bench.hooks.counters.loadBackPressure).toBe(1);
    bench.hooks.buildMetadata();
    expect(bench.hooks.matchedTokens(three, 0)).toBe(32);
    expect(bench.hooks.outcome(three)).toBe(OUTCOME_HIT);
  });

  test("a save waits for the prompt's hashes", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(64, { hash: false });
    expect(startSave(bench, slot, 64)).toBe(NONE);
    expect(bench.hooks.hashing(slot)).toBe(true);
    expect(bench.answerHash(slot)).toBe(true);
    bench.setTokens(slot, 65);
    expect(startSave(bench, slot, 1, 64)).not.toBe(NONE);
  });

  test("a failed save is taken up again by the next one of the request", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(112);
    const job = startSave(bench, slot, 48);
    saveDone(bench, job, OUTCOME_NO_SPACE);
    apply(bench);
    const next = startSave(bench, slot, 32, 48);
    expect(bench.chunks(next)).toEqual({ first: 0, count: 5 });
    saveDone(bench, next);
    apply(bench);
    const last = startSave(bench, slot, 32, 80);
    expect(bench.chunks(last)).toEqual({ first: 5, count: 2 });
    // The chunks to save first; all other blocks of the request are only held.
    expect(bench.row(last)).toEqual([15, 16, 10, 11, 12, 13, 14]);
    expect(bench.pinnedBlocks()).toEqual(BLOCKS);
  });

  test("decode is saved only with save_decode_cache, and then hashed here", () => {
    for (const saveDecodeCache of [false, true]) {
      const bench = new ConnectorBench({ settings: { saveDecodeCache } });
      const slot = bench.addRequest(30);
      startSave(bench, slot, 30);
      bench.setTokens(slot, 32);
      expect(startSave(bench, slot, 1, 31) === NONE).toBe(!saveDecodeCache);
      expect(bench.hashed.map(([, from, to]) => [from, to])).toEqual(
        saveDecodeCache ? [[1, 2]] : [],
      );
    }
  });

  test("roles: a consumer saves what it decodes, and that with save_decode_cache only; a producer loads too", () => {
    const saves = (settings: NonNullable<BenchOptions["settings"]>): number[] => {
      const bench = new ConnectorBench({ settings });
      const slot = bench.addRequest(30);
      const made = [startSave(bench, slot, 30)];
      bench.setTokens(slot, 32);
      made.push(startSave(bench, slot, 1, 31));
      return made.map((job) => (job === NONE ? 0 : bench.chunks(job).count));
    };
    expect(saves({ role: "kv_both" })).toEqual([1, 0]);
    expect(saves({ role: "kv_consumer", canSave: false })).toEqual([0, 0]);
    expect(saves({ role: "kv_consumer", saveDecodeCache: true })).toEqual([0, 2]);
    expect(saves({ role: "kv_producer" })).toEqual([1, 0]);
    const producer = new ConnectorBench({ settings: { role: "kv_producer" } });
    startLoad(producer, producer.addRequest(100), 32);
  });

  test("a request that shall reuse nothing is not saved", () => {
    const bench = new ConnectorBench();
    const slot = bench.addRequest(64, { flags: REQUEST_FLAG_NO_REUSE, hash: false });
    expect(startSave(bench, slot, 64)).toBe(NONE);
    expect(bench.hooks.counters.postponedSaves).toBe(0);
  });

  test("a load needs free blocks only, however many are held by saves of requests that ended", () => {
    const bench = new ConnectorBench({ dimensions: { blockCount: 24 } });
    const waiting = bench.addRequest(100);
    bench.hooks.matchedTokens(waiting, 0);
    bench.answerHit(waiting, 32);
    const gone = bench.addRequest(112);
    const job = startSave(bench, gone, 112);
    expect(bench.hooks.matchedTokens(waiting, 0)).toBe(32);
    bench.hooks.requestFinished(gone);
    expect(bench.hooks.quarantinedBlocks()).toBe(7);
    expect(bench.hooks.matchedTokens(waiting, 0)).toBe(32);
    expect(bench.hooks.outcome(waiting)).toBe(OUTCOME_HIT);
    saveDone(bench, job);
    apply(bench);
  });

  test("a small pool has room for the saves of many requests at a time", () => {
    const bench = new ConnectorBench({ dimensions: { blockCount: 128, jobSlots: 32 } });
    const jobs = Array.from({ length: 8 }, () => startSave(bench, bench.addRequest(112), 112));
    expect(jobs).not.toContain(NONE);
    expect(bench.hooks.counters.postponedSaves).toBe(0);
  });

  test("an overdue save is counted and stays pinned", () => {
    const bench = new ConnectorBench();
    const job = startSave(bench, bench.addRequest(64), 64);
    bench.nowMs = 60_000;
    bench.hooks.expire(() => expect.unreachable("nobody waits for a save"));
    expect(bench.hooks.counters.saveTimeouts).toBe(1);
    expect(bench.pinnedBlocks()).toHaveLength(4);
    saveDone(bench, job, OUTCOME_TIMEOUT);
    apply(bench);
    expect(bench.pinnedBlocks()).toEqual([]);
  });
});

describe("reports that nobody waits for", () => {
  test("duplicates, unknown jobs and unknown ranks are dropped on every level", () => {
    const bench = new ConnectorBench();
    const job = startSave(bench, bench.addRequest(64), 64);
    expect(saveDone(bench, job, OUTCOME_HIT, 1)).toBe(false);
    expect(saveDone(bench, 5)).toBe(false);
    expect(saveDone(bench, job)).toBe(true);
    expect(saveDone(bench, job)).toBe(false);
    const output = apply(bench);
    expect(output.doneSaveCount).toBe(1);
    bench.hooks.applyOutput(output);
    expect(output.doneSaves[0]).toBe(NONE);
    expect(bench.hooks.counters.staleMessages).toBe(1);
    expect(bench.pinnedBlocks()).toEqual([]);
  });

  test("worker sides far from their scheduler side cancel overdue loads themselves", () => {
    const bench = new ConnectorBench();
    const job = startLoad(bench, bench.addRequest(100), 64);
    const worker = bench.sides.workers[0]!;
    bench.nowMs = 29_999;
    worker.expire();
    expect(bench.sent.filter(({ message }) => message.kind === "cancelLoad")).toEqual([]);
    bench.nowMs = 30_000;
    worker.expire();
    worker.expire();
    expect(bench.sent.filter(({ message }) => message.kind === "cancelLoad")).toEqual([
      { actor: ACTOR_LOADER, message: { kind: "cancelLoad", job, ticket: 1 } },
    ]);
    expect(bench.sides.collect().doneLoadCount).toBe(0);
    loadDone(bench, job, OUTCOME_CANCELLED, 0);
    expect(bench.sides.collect().loadOutcomes[0]).toBe(OUTCOME_TIMEOUT);
  });
});
