/**
 * Goal: an actor that dies at once again and again costs little, and a rare death costs next to no time.
 * Method: the policy on a clock of the test's own.
 */
import { expect, test } from "vitest";
import { RestartPolicy } from "../../src/actors/supervision/restart-policy.ts";

test("delays double up to two seconds", () => {
  const policy = new RestartPolicy();
  const delays = Array.from({ length: 10 }, (_, death) => policy.delayMs(death));
  expect(delays).toEqual([10, 20, 40, 80, 160, 320, 640, 1280, 2000, 2000]);
});

test("at most 40 starts in the first minute, then one in two seconds", () => {
  const policy = new RestartPolicy();
  let [nowMs, starts] = [0, 0];
  while (nowMs < 60_000) {
    nowMs += policy.delayMs(nowMs);
    starts++;
  }
  expect(starts).toBeLessThanOrEqual(40);
  expect(policy.delayMs(nowMs)).toBe(2000);
});

test("after a quiet minute the first delay again", () => {
  const policy = new RestartPolicy();
  for (let death = 0; death < 20; death++) policy.delayMs(0);
  expect(policy.delayMs(60_000)).toBe(2000);
  expect(policy.delayMs(120_001)).toBe(10);
});
