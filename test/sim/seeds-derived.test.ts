// Goal: in 3,000 more simulated runs, new ones for every commit, every promise holds: each request ends, every answer is the
// model's truth, the pool holds no wrong byte, and all gauges are back at zero.
// Method: as in seeds-fixed.test.ts, which says how a run works; seeds come from the commit id and are printed.
import { expect, test } from "vitest";

import { derivedSeeds, runSeeds, seedText } from "./lib/seeds.ts";

const RUNS = 3000;

test(`${RUNS} runs with seeds from the commit`, { timeout: 1_200_000 }, () => {
  const text = seedText();
  const seeds = derivedSeeds(text, "second part", RUNS);
  console.log(`seeds from ${seeds[0]} on, out of "${text}"`);
  const { runs, failures } = runSeeds(seeds);
  expect(failures).toEqual([]);
  expect(runs).toBe(RUNS);
});
