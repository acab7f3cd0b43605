/**
 * Goal: nothing from outside kills, stalls, grows or muddles: every door meets a minute of wrong inputs, from a seed that the day gives,
 * and some fixed ones.
 * Method: see attack.ts. A failure names target and seed; `npm run attack -- --target T --seed N --inputs 1` shows it again.
 */
import { expect, test } from "vitest";
import { attack } from "./attack.ts";
import { TARGETS } from "./targets.ts";

const FIXED_INPUTS = 200;
const SECONDS = 50;
const nowMs = (): number => performance.now();

test("fixed seeds", async () => {
  const options = { targets: TARGETS, seconds: 600, seed: 1, inputsMax: FIXED_INPUTS, nowMs };
  const { inputs, failures } = await attack(options);
  expect(failures).toEqual([]);
  expect(inputs).toBe(FIXED_INPUTS * TARGETS.length);
});

test("seeds of the day", async () => {
  const seed = Math.floor(Date.now() / 86_400_000) * 10_000_000;
  const { inputs, failures } = await attack({ targets: TARGETS, seconds: SECONDS, seed, nowMs });
  expect(failures).toEqual([]);
  expect(inputs).toBeGreaterThan(0);
});

test("a door that throws its insides, does not heal or stalls is found", async () => {
  let broken = false;
  const bad = {
    name: "bad",
    open: () => ({
      try: () => ({
        input: { a: 1 },
        bytes: 0,
        run: () => {
          broken = true;
          throw new TypeError("inside");
        },
      }),
      heal: () => {
        if (broken) throw new Error("still broken");
      },
    }),
  };
  const { failures } = await attack({ targets: [bad], seconds: 60, seed: 7, inputsMax: 1, nowMs });
  expect(failures).toMatchObject([
    {
      target: "bad",
      seed: 7,
      problem: expect.stringContaining("TypeError: inside"),
      input: '{"a":1}',
    },
    { target: "bad", problem: expect.stringContaining("still broken") },
  ]);
});
