/**
 * Goal: a job holds exactly the blocks of its rows, null blocks left out, until it is released; those of a job without a request
 * are in quarantine, each block once; an allocator that refuses a pin leaves nothing held. Method: the held blocks alone, on real
 * tables and rows of two groups, with an allocator that counts and refuses.
 */
import { beforeEach, expect, test } from "vitest";
import {
  JOB_KIND,
  JOB_KIND_SAVE,
  REQUEST_BLOCK_PAGE,
  REQUEST_GROUP_BLOCKS,
} from "../../src/blocks/layout.ts";
import { PageAllocator } from "../../src/blocks/page-arena.ts";
import type { Tables } from "../../src/blocks/tables.ts";
import { BoundaryPuts } from "../../src/connector/boundary-puts.ts";
import { HeldBlocks } from "../../src/connector/held-blocks.ts";
import { JobRows } from "../../src/connector/job-rows.ts";
import { smallTables } from "./small-tables.ts";

const SLOT = 1;

let tables: Tables;
let rows: JobRows;
let pins: Map<number, number>;
let pinsLeft: number;
let held: HeldBlocks;

beforeEach(() => {
  tables = smallTables({ requestSlots: 2, jobSlots: 3, groups: 2, blockCount: 64 });
  const pages = new PageAllocator(tables.blocks);
  rows = new JobRows(tables, pages);
  pins = new Map();
  pinsLeft = Infinity;
  held = create();
  const request = tables.request(SLOT);
  for (const [group, blockIds] of [
    [3, 4, 5],
    [0, 6, 7],
  ].entries()) {
    const page = pages.allocate(blockIds.length);
    tables.requests[request + REQUEST_BLOCK_PAGE + group] = page;
    tables.requests[request + REQUEST_GROUP_BLOCKS + group] = blockIds.length;
    for (const [index, block] of blockIds.entries()) tables.blocks.set(page, index, block);
  }
});

function create(): HeldBlocks {
  const count = (ids: Int32Array, length: number, change: number): void => {
    for (const block of ids.subarray(0, length)) {
      const left = (pins.get(block) ?? 0) + change;
      if (left === 0) pins.delete(block);
      else pins.set(block, left);
    }
  };
  const pool = {
    pin: (ids: Int32Array, length: number) => {
      if (pinsLeft-- <= 0) throw new Error("no pin");
      count(ids, length, 1);
    },
    unpin: (ids: Int32Array, length: number) => count(ids, length, -1),
  };
  return new HeldBlocks(tables, pool, rows);
}

/** A save's record of the whole request and of one boundary put, block 9. */
function write(job: number): void {
  const puts = new BoundaryPuts();
  puts.add(1, 9, 48);
  tables.jobs[tables.job(job) + JOB_KIND] = JOB_KIND_SAVE;
  expect(rows.allocate(job, [3, 3], puts.count)).toBe(true);
  rows.writeBoundaries(job, puts);
}

const pinned = (): Record<number, number> => Object.fromEntries(pins);

test("blocks of all rows and of boundary puts are held until the release; null blocks are nobody's", () => {
  write(0);
  expect(held.hold(0, SLOT)).toBe(6);
  expect(pinned()).toEqual({ 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 9: 1 });
  expect(held.quarantine.blocks).toBe(0);
  expect(held.orphan(0)).toBe(false);
  expect(held.release(0)).toBe(6);
  expect(pinned()).toEqual({});
});

test("the rows are copies: what becomes of the request's own changes nothing", () => {
  write(0);
  held.hold(0, SLOT);
  tables.blocks.set(tables.requests[tables.request(SLOT) + REQUEST_BLOCK_PAGE]!, 0, 20);
  held.release(0);
  expect(pinned()).toEqual({});
});

test("blocks that two jobs without a request hold are in quarantine once, until the last lets go", () => {
  for (const job of [0, 1]) {
    write(job);
    held.hold(job, SLOT);
    expect(held.abandon(job)).toBe(6);
    expect(held.orphan(job)).toBe(true);
  }
  expect(held.quarantine.blocks).toBe(6);
  held.release(0);
  expect(held.quarantine.blocks).toBe(6);
  expect(pinned()).toEqual({ 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 9: 1 });
  held.release(1);
  expect(held.quarantine.blocks).toBe(0);
  expect(pinned()).toEqual({});
  // Readable until the record is used again.
  expect(held.orphan(1)).toBe(true);
  held.hold(1, SLOT);
  expect(held.orphan(1)).toBe(false);
});

test.each([0, 1, 2])("when the allocator refuses the pin after %i, none is held", (allowed) => {
  write(0);
  pinsLeft = allowed;
  expect(() => held.hold(0, SLOT)).toThrow("no pin");
  expect(pinned()).toEqual({});
});

test("a successor holds what its predecessor's job held", () => {
  write(2);
  held.hold(2, SLOT);
  pins = new Map();
  const successor = create();
  successor.adopt(2);
  expect(successor.abandon(2)).toBe(6);
  expect(pinned()).toEqual({ 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 9: 1 });
  expect(successor.quarantine.blocks).toBe(6);
  successor.release(2);
  expect(pinned()).toEqual({});
  expect(successor.quarantine.blocks).toBe(0);
});
