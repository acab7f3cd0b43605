// Goal: a seed that failed anywhere can be looked at: `MOONCAKE_KV_SEED=123 npx vitest run test/sim/replay.test.ts` prints every
// message, event and death of its run in order, then what went wrong.
// Method: run the seed (without the variable: seed 1, silently) with a log; it must meet every promise, and the log must hold
// the end of each of its requests.
import { expect, test } from "vitest";

import { simulate } from "./lib/simulated-run.ts";

test("a seed runs again, with its log", () => {
  const wanted = process.env.MOONCAKE_KV_SEED;
  const lines: string[] = [];
  const { errors, requests } = simulate(Number(wanted ?? 1), { log: (line) => lines.push(line) });
  if (wanted !== undefined) console.log(lines.join("\n"));
  expect(errors).toEqual([]);
  const ends = lines.filter((line) => line.includes('-> frontEnd {"kind":"requestFinished"'));
  expect(ends.length).toBeGreaterThanOrEqual(requests);
});
