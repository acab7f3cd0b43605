// Goal: a seed says everything about a run, so that a failing one can be looked at again, on any machine.
// Method: each of 60 seeds runs twice; the digest over every message, event and step in order is equal, and so is what occurred.
// Different seeds have different digests. Looking at a run (a log) does not change it.
import { expect, test } from "vitest";

import { simulate } from "./lib/simulated-run.ts";

const SEEDS = Array.from({ length: 60 }, (_, index) => 7000 + index);

test("the same seed gives the same run", () => {
  for (const seed of SEEDS) {
    const first = simulate(seed);
    const second = simulate(seed, { log: () => undefined });
    expect([seed, second.digest]).toEqual([seed, first.digest]);
    expect([...second.situations]).toEqual([...first.situations]);
  }
});

test("different seeds give different runs", () => {
  const digests = new Set(SEEDS.map((seed) => simulate(seed).digest));
  expect(digests.size).toBe(SEEDS.length);
});
