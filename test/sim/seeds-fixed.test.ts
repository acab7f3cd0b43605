// Goal: the product's own actors keep their promises in thousands of simulated runs with faults: every request ends, every
// answer is the model's truth, the pool holds no wrong byte, and all gauges (slots, pages, pins, jobs, batches, quarantined
// blocks, mailboxes) are back at zero after an orderly shutdown.
// Method: one thread, a virtual clock, everything drawn from the seed: sizes, settings, requests, aborts, drops of the local
// cache, failed, slow and lost I/O, outages, frozen threads, messages that come twice, deaths of every actor: at a context call
// that others see or before an operation on a shared word, so between two stores too, and again while its successor takes over.
// The next token of the simulated model is a hash of all KV bytes reached through the block table, so a wrong block is a wrong
// text; what lies in the pool is compared with values computed by other code. 1,000 seeds are fixed, 2,000 come from the
// commit id. Which interesting situations occurred is counted over the fixed seeds, and must not fall below the limits.
// MUTATIONS.md lists the faults that were put into the product to see that these runs find them.
import { describe, expect, test } from "vitest";

import { derivedSeeds, FIXED_SEEDS, fixedSeeds, runSeeds, seedText } from "./lib/seeds.ts";
import { SITUATIONS_LEAST } from "./lib/situation-limits.ts";

const DERIVED_RUNS = 2000;

describe("simulated runs", () => {
  test(`${FIXED_SEEDS} fixed seeds`, { timeout: 1_200_000 }, () => {
    const { failures, situations } = runSeeds(fixedSeeds());
    expect(failures).toEqual([]);
    const rare = Object.entries(SITUATIONS_LEAST)
      .map(([situation, least]) => ({ situation, least, runs: situations.get(situation) ?? 0 }))
      .filter(({ least, runs }) => runs < least);
    expect(rare).toEqual([]);
  });

  test(`${DERIVED_RUNS} runs with seeds from the commit`, { timeout: 1_200_000 }, () => {
    const text = seedText();
    const seeds = derivedSeeds(text, "first part", DERIVED_RUNS);
    console.log(`seeds from ${seeds[0]} on, out of "${text}"`);
    const { runs, failures } = runSeeds(seeds);
    expect(failures).toEqual([]);
    expect(runs).toBe(DERIVED_RUNS);
  });
});
