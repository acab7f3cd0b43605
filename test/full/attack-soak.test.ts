/**
 * Goal: an hour of wrong inputs kills, stalls and muddles nothing, and memory does not grow with them.
 * Method: test/attack, from a seed that the day gives.
 */
import { expect, test } from "vitest";
import { attack } from "../attack/attack.ts";
import { TARGETS } from "../attack/targets.ts";

const SECONDS = 3600;

test("an hour of attack", { timeout: 4 * SECONDS * 1000 }, async () => {
  const seed = Math.floor(Date.now() / 86_400_000) * 10_000_000 + 5_000_000;
  const nowMs = (): number => performance.now();
  const report = await attack({ targets: TARGETS, seconds: SECONDS, seed, nowMs });
  expect(report.failures).toEqual([]);
  expect(report.failed).toBe(0);
});
