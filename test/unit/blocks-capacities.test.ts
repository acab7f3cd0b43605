/**
 * Goal: what one side may hold, the other has room for: pages of block rows, records of mailboxes, rows of log-probabilities.
 * Method: the worst case of each is counted out and compared, over small and large dimensions.
 */
import { describe, expect, it } from "vitest";
import {
  blockRowPages,
  furtherSavePagesMax,
  LOOKUP_RECORDS_PER_SLOT,
  LOOKUPS_PER_REQUEST_MAX,
  loadBlocksMax,
  logprobRows,
  mailboxRecords,
} from "../../src/blocks/capacities.ts";
import { BLOCKS_PER_PAGE } from "../../src/blocks/layout.ts";

const SHAPES = [
  { requestSlots: 1, jobSlots: 4, groups: 1, blockCount: 2, blockSize: 16, tokensMax: 32 },
  { requestSlots: 64, jobSlots: 256, groups: 3, blockCount: 4096, blockSize: 16, tokensMax: 8192 },
  {
    requestSlots: 10_000,
    jobSlots: 40_000,
    groups: 1,
    blockCount: 1_000_000,
    blockSize: 16,
    tokensMax: 20_000_000,
  },
];

describe("pages of block rows", () => {
  it.each(SHAPES)("leave room for all request rows and all loads beside the saves: %o", (shape) => {
    const { requestSlots, jobSlots, groups, blockCount, blockSize, tokensMax } = shape;
    const named = Math.max(blockCount, tokensMax / blockSize);
    // All rows live, those of boundary puts too, and one page of each wasted; every named block once in a request row, once in the row of one
    // that ended, and once in a load.
    const rows = (requestSlots + jobSlots) * groups + jobSlots;
    const needed = rows + Math.ceil((3 * named * groups) / BLOCKS_PER_PAGE);
    expect(blockRowPages(shape) - furtherSavePagesMax(shape)).toBeGreaterThanOrEqual(needed);
  });
});

describe("records of mailboxes", () => {
  it("hold every question and discard of the lookups that a request may have open", () => {
    const [one, two] = [mailboxRecords(1, 0, 1, 1), mailboxRecords(2, 0, 1, 1)];
    expect(two.lookup - one.lookup).toBe(1 + 2 * LOOKUPS_PER_REQUEST_MAX);
    expect(two.scheduler - one.scheduler).toBe(3 + LOOKUPS_PER_REQUEST_MAX);
    expect(LOOKUP_RECORDS_PER_SLOT).toBeGreaterThanOrEqual(2 * LOOKUPS_PER_REQUEST_MAX);
  });

  it("hold a message of each rank for every job, and once more after a restart", () => {
    const [one, two] = [mailboxRecords(1, 1, 1, 3), mailboxRecords(1, 2, 1, 3)];
    expect([two.scheduler - one.scheduler, two.loader - one.loader, two.saver - one.saver]).toEqual(
      [6, 7, 6],
    );
  });

  it("are fewer than the rows of log-probabilities", () => {
    for (const [slots, sequences] of [
      [1, 1],
      [1000, 64],
    ] as const)
      expect(logprobRows(slots, sequences)).toBeGreaterThanOrEqual(
        2 * mailboxRecords(slots, 4 * slots, sequences, 1).frontEnd,
      );
    expect(logprobRows(1000, 0)).toBe(1);
  });
});

describe("blocks", () => {
  it("are counted without block 0", () => {
    expect([loadBlocksMax(9), loadBlocksMax(2)]).toEqual([4, 0]);
  });
});
