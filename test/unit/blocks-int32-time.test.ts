/**
 * Goal: a time that crossed as an int32 is the time that was meant, also where the low 32 bits wrap.
 * Method: times around several wraps, within half the range of the receiver's clock.
 */
import { expect, test } from "vitest";
import { widenTime } from "../../src/blocks/int32-time.ts";

test("the nearest time with these low bits", () => {
  for (const now of [0, 12_345, 2 ** 31 - 5, 2 ** 31 + 5, 2 ** 32 - 1, 5 * 2 ** 32 + 7])
    for (const ahead of [0, 1, 30_000, 2 ** 31 - 1, -1, -60_000])
      expect(widenTime((now + ahead) | 0, now)).toBe(now + ahead);
  expect(widenTime(110, 100.25)).toBe(110.25);
});
