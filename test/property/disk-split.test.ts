/**
 * Goal: a load that is cut for the staging buffer keeps every key once and in order, and no batch needs more than fits.
 * Method: random sizes and budgets; batches are full, so that the next key would not have fitted either.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { splitForStaging, stagingBudget, stagingBytes } from "../../src/store/disk-split.ts";

it("cuts into batches that fit", () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 100_000 }), { maxLength: 40 }),
      fc.integer({ min: 1, max: 400_000 }),
      (bytes, rawBytes) => {
        const budget = stagingBudget(rawBytes);
        const needs = bytes.map(stagingBytes);
        const split = splitForStaging(bytes, budget);
        const tooLarge = needs.findIndex((need) => need > rawBytes);
        if (split.kind === "oversize") {
          expect(split.key).toBe(tooLarge);
          return;
        }
        expect(tooLarge).toBe(-1);
        expect(split.ends.at(-1) ?? 0).toBe(bytes.length);
        split.ends.forEach((end, batch) => {
          const from = split.ends[batch - 1] ?? 0;
          const total = (to: number): number =>
            needs.slice(from, to).reduce((all, need) => all + need, 0);
          expect(end).toBeGreaterThan(from);
          expect(total(end) <= budget.usableBytes || end === from + 1).toBe(true);
          if (end < bytes.length) expect(total(end + 1)).toBeGreaterThan(budget.usableBytes);
        });
      },
    ),
    { numRuns: 1_000 },
  );
});
