/**
 * Goal: a step that is refused or given up by the loop loses no save and keeps no pin. Method: both sides on real tables with
 * the test as scheduler; nothing is started in the steps that the loop gives up.
 */
import { describe, expect, test } from "vitest";
import { OUTCOME_HIT } from "../../src/actors/messages.ts";
import { ConnectorBench } from "./connector-bench.ts";
import { apply, BLOCKS, loadDone, saveDone, startLoad, startSave } from "./connector-steps.ts";

function announceSave(bench: ConnectorBench, slot: number): void {
  bench.setRow(slot, BLOCKS.slice(0, 4));
  bench.hooks.scheduled(slot, 0, 64);
}
function announceLoad(bench: ConnectorBench, slot: number): void {
  bench.hooks.matchedTokens(slot, 0);
  bench.answerHit(slot, 32);
  bench.hooks.matchedTokens(slot, 0);
  bench.setRow(slot, [20, 21]);
  bench.hooks.blocksAllocated(slot, 32);
}
const idle = (bench: ConnectorBench): void => {
  expect(bench.pinnedBlocks()).toEqual([]);
  expect(bench.hooks.liveJobs()).toBe(0);
  expect(bench.hooks.nextDeadlineMs()).toBe(Infinity);
  expect(bench.hooks.quarantinedBlocks()).toBe(0);
};

describe("a step that is refused", () => {
  test("too few blocks: refused by name before any job is made, once, and the others are saved later", () => {
    const bench = new ConnectorBench();
    const [good, bad] = [bench.addRequest(64), bench.addRequest(64)];
    announceSave(bench, good);
    bench.hooks.scheduled(bad, 0, 64);
    expect(() => bench.hooks.buildMetadata()).toThrow(
      expect.objectContaining({
        code: "INVALID_VALUE",
        value: { request: bad, blocks: 0, needed: 4 },
      }),
    );
    idle(bench);
    expect(bench.hooks.buildMetadata().saveCount).toBe(0);
    const job = startSave(bench, good, 64);
    expect(bench.chunks(job)).toEqual({ first: 0, count: 4 });
    saveDone(bench, job);
    apply(bench);
    idle(bench);
  });

  test("a pin that throws leaves no job of the step, in no group, and the saves are still due", () => {
    for (const pins of [0, 1, 2, 3]) {
      const bench = new ConnectorBench({ dimensions: { groups: 2, jobSlots: 3 } });
      const slots = [bench.addRequest(64), bench.addRequest(64)];
      for (const slot of slots) {
        bench.setRows(slot, [BLOCKS.slice(0, 4), BLOCKS.slice(3, 7)]);
        bench.hooks.scheduled(slot, 0, 64);
      }
      bench.pinsLeft = pins;
      expect(() => bench.hooks.buildMetadata()).toThrow("no pin");
      bench.pinsLeft = Infinity;
      idle(bench);
      expect(bench.hooks.buildMetadata().saveCount).toBe(0);
      for (const slot of slots) bench.hooks.scheduled(slot, 0, 64);
      expect(bench.hooks.buildMetadata().saveCount).toBe(2);
    }
  });
});

describe("a step that is never started", () => {
  test("the request leaves: its jobs are released by their deadline, and the step's metadata starts nothing", () => {
    for (const leave of ["requestFinished", "preempted"] as const) {
      const bench = new ConnectorBench();
      const [saved, loaded, other] = [100, 100, 64].map((tokens) => bench.addRequest(tokens));
      announceSave(bench, saved!);
      announceLoad(bench, loaded!);
      bench.hooks.scheduled(other!, 0, 8);
      const metadata = bench.hooks.buildMetadata();
      expect([metadata.saveCount, metadata.loadCount]).toEqual([1, 1]);
      const copy = { ...metadata, loads: metadata.loads.slice(), saves: metadata.saves.slice() };
      bench.hooks[leave](saved!);
      bench.hooks[leave](loaded!);
      bench.take("cancelLoad");
      bench.nowMs = 60_000;
      bench.hooks.expire(() => expect.unreachable("nobody waits"));
      idle(bench);
      for (const stale of [metadata, copy]) {
        bench.sides.startLoads(stale);
        bench.sides.startSaves(stale);
      }
      expect(
        bench.sent.filter(({ message }) => /^(load|save|cancelLoad)$/.test(message.kind)),
      ).toEqual([]);
      expect(apply(bench).doneSaveCount).toBe(0);
    }
  });

  test("the request leaves before the step is started: the loader is told of the load alone, and its end frees the blocks", () => {
    for (const leave of ["requestFinished", "preempted"] as const) {
      const bench = new ConnectorBench();
      const slot = bench.addRequest(100);
      announceLoad(bench, slot);
      const metadata = bench.hooks.buildMetadata();
      const job = metadata.loads[0]!;
      bench.hooks[leave](slot);
      expect(bench.hooks.quarantinedBlocks()).toBe(2);
      bench.sides.startLoads(metadata);
      expect(bench.take("cancelLoad")).toEqual([]);
      expect(bench.take("load")).toHaveLength(1);
      expect(loadDone(bench, job, OUTCOME_HIT)).toBe(true);
      apply(bench);
      idle(bench);
    }
  });

  test("the deadline passes: the save is due again, the load has failed", () => {
    const bench = new ConnectorBench();
    const [saved, loaded] = [bench.addRequest(112), bench.addRequest(100)];
    announceSave(bench, saved);
    announceLoad(bench, loaded);
    const metadata = bench.hooks.buildMetadata();
    bench.nowMs = 60_000;
    const lost: [number, boolean][] = [];
    bench.hooks.expire((slot, loadLost) => void lost.push([slot, loadLost]));
    expect(lost).toEqual([[loaded, true]]);
    expect(bench.hooks.counters).toMatchObject({
      saveTimeouts: 1,
      loadTimeouts: 1,
      failedLoads: 1,
    });
    idle(bench);
    bench.sides.startLoads(metadata);
    bench.sides.startSaves(metadata);
    expect(bench.take("cancelLoad").length + bench.take("load").length).toBe(0);
    expect(bench.take("save")).toEqual([]);
    expect(bench.chunks(startSave(bench, saved, 32, 64))).toEqual({ first: 0, count: 6 });
  });

  test("metadata that is used twice starts its jobs once", () => {
    const bench = new ConnectorBench();
    const job = startLoad(bench, bench.addRequest(100), 64);
    const loads = Int32Array.of(job);
    const saves = new Int32Array(1);
    bench.sides.startLoads({ loads, loadCount: 1, saves, saveCount: 0, hasSyncLoads: false });
    expect(bench.take("load")).toHaveLength(1);
  });
});
