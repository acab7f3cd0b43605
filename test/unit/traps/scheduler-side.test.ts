/**
 * Goal: the trap of vLLM's older description: a finished request never delays the release of its blocks, because saves pin them, a
 * job at a time, until every rank has reported; loads start in start_load_kv and saves in wait_for_save; a producer loads too.
 * Method: both sides of the connector on real tables, with the test as scheduler, loader and saver.
 */
import { describe, expect, test } from "vitest";
import { OUTCOME_HIT } from "../../../src/actors/messages.ts";
import { ConnectorBench } from "../connector-bench.ts";
import { apply, saveDone, startLoad } from "../connector-steps.ts";

const BLOCKS = [20, 21, 22];

/** One step that computes the whole prompt; returns the bench before and after `waitForSave`. */
function computed(ranks: number): { bench: ConnectorBench; slot: number; job: number } {
  const bench = new ConnectorBench({ ranks });
  const slot = bench.addRequest(48);
  bench.setRow(slot, BLOCKS);
  bench.hooks.scheduled(slot, 0, 48);
  const metadata = bench.hooks.buildMetadata();
  expect([metadata.loadCount, metadata.saveCount]).toEqual([0, 1]);
  const job = metadata.saves[0] ?? -1;
  bench.sides.startLoads(metadata);
  expect(bench.take("save"), "before the blocks are computed").toEqual([]);
  bench.sides.startSaves(metadata);
  return { bench, slot, job };
}

describe("trap 6", () => {
  test("saves start in wait_for_save, on every rank", () => {
    const { bench } = computed(2);
    expect(bench.take("save").map(({ worker }) => worker)).toEqual([0, 1]);
  });

  test("a finished request leaves its blocks pinned until the last rank has reported", () => {
    const { bench, slot, job } = computed(2);
    const sent = bench.take("save");
    bench.hooks.requestFinished(slot);
    expect(bench.pinnedBlocks()).toEqual(BLOCKS);
    for (const [index, { worker }] of sent.entries()) {
      expect(bench.pinnedBlocks(), `after ${index} ranks`).toEqual(BLOCKS);
      saveDone(bench, job, OUTCOME_HIT, worker);
      apply(bench);
    }
    expect(bench.pinnedBlocks()).toEqual([]);
    expect(bench.hooks.inFlight(slot)).toBe(0);
  });

  test("a producer looks up and loads as well", () => {
    const bench = new ConnectorBench({ settings: { role: "kv_producer" } });
    const slot = bench.addRequest(100);
    startLoad(bench, slot, 64);
    expect(bench.take("load")).toHaveLength(1);
  });

  test("a consumer saves nothing, unless it saves what it decodes", () => {
    for (const saveDecodeCache of [false, true]) {
      const settings = { role: "kv_consumer", canSave: saveDecodeCache, saveDecodeCache } as const;
      const bench = new ConnectorBench({ settings });
      const slot = bench.addRequest(32);
      bench.setRow(slot, BLOCKS);
      bench.hooks.scheduled(slot, 0, 32);
      expect(bench.hooks.buildMetadata().saveCount, "the prompt").toBe(0);
      bench.setTokens(slot, 48);
      bench.hooks.scheduled(slot, 32, 16);
      expect(bench.hooks.buildMetadata().saveCount, "decoded").toBe(saveDecodeCache ? 1 : 0);
    }
  });
});
