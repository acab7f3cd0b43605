// Goal: 100,000 simulated runs keep every promise, new ones for every commit.
// Method: as in test/sim/seeds-fixed.test.ts; seeds come from the commit id and are printed, a failing one with its command.
import { expect, test } from "vitest";

import { derivedSeeds, runSeeds, seedText } from "../sim/lib/seeds.ts";

const RUNS = 100_000;

test(`${RUNS} simulated runs`, { timeout: 3_600_000 }, () => {
  const text = seedText();
  const seeds = derivedSeeds(text, "soak", RUNS);
  console.log(`seeds from ${seeds[0]} on, out of "${text}"`);
  const { runs, failures } = runSeeds(seeds);
  expect(failures).toEqual([]);
  expect(runs).toBe(RUNS);
});
