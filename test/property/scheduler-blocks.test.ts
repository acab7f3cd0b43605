/**
 * Goal: the allocator never hands out a block that anyone holds, loses none, and evicts in LRU order; the prefix cache finds
 * exactly what is in it. Method: random operation sequences against plain models with Map, Set and arrays.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BlockAllocator } from "../../src/actors/scheduler/block-allocator.ts";
import { PrefixCache } from "../../src/actors/scheduler/prefix-cache.ts";
import { NONE } from "../../src/blocks/layout.ts";

const BLOCKS = 9;

/** Digests that collide in the table on purpose: the home place comes from the low bits of the first words. */
function digest(number: number): Int32Array {
  return Int32Array.from({ length: 8 }, (_, word) =>
    word < 2 ? (number % 3) * 7 : number * 31 + word,
  );
}

type Operation = {
  kind: "allocate" | "reference" | "release" | "pin" | "unpin" | "cache" | "drop";
  pick: number;
};

const operation: fc.Arbitrary<Operation> = fc.record({
  kind: fc.constantFrom(
    "allocate",
    "allocate",
    "reference",
    "release",
    "release",
    "pin",
    "unpin",
    "cache",
    "drop",
  ),
  pick: fc.nat(1000),
});

class Model {
  readonly references = new Map<number, number>();
  readonly pins = new Map<number, number>();
  /** Free blocks, least recently used first. */
  readonly free: number[] = Array.from({ length: BLOCKS - 1 }, (_, index) => index + 1);
  readonly cached = new Map<number, number>();

  held(of: Map<number, number>): number[] {
    return [...of].filter(([, count]) => count > 0).map(([block]) => block);
  }
  change(of: Map<number, number>, block: number, by: number): void {
    const wasFree = this.free.includes(block);
    of.set(block, (of.get(block) ?? 0) + by);
    const used = (this.references.get(block) ?? 0) + (this.pins.get(block) ?? 0) > 0;
    if (used && wasFree) this.free.splice(this.free.indexOf(block), 1);
    if (!used && !wasFree) this.free.push(block);
  }
}

function apply(allocator: BlockAllocator, model: Model, { kind, pick }: Operation): void {
  const choose = (blocks: number[]): number => blocks[pick % Math.max(1, blocks.length)] ?? NONE;
  const one = (block: number): Int32Array => Int32Array.of(block);
  if (kind === "allocate") {
    const expected = model.free[0] ?? NONE;
    expect(allocator.allocate()).toBe(expected);
    if (expected === NONE) return;
    model.cached.delete(expected);
    model.change(model.references, expected, 1);
    return;
  }
  if (kind === "drop") {
    const unreferenced = [...model.cached.keys()].filter(
      (block) => (model.references.get(block) ?? 0) === 0,
    );
    expect(allocator.dropCache()).toBe(unreferenced.length);
    for (const block of unreferenced) model.cached.delete(block);
    return;
  }
  const source = {
    reference: [...model.cached.keys()],
    release: model.held(model.references),
    pin: model.held(model.references),
    unpin: model.held(model.pins),
    cache: model.held(model.references).filter((block) => !model.cached.has(block)),
  }[kind];
  const block = choose(source);
  if (block === NONE) return;
  if (kind === "reference") {
    allocator.reference(block);
    model.change(model.references, block, 1);
  } else if (kind === "release") {
    allocator.release(block);
    model.change(model.references, block, -1);
  } else if (kind === "pin") {
    allocator.pin(one(block), 1);
    model.change(model.pins, block, 1);
  } else if (kind === "unpin") {
    allocator.unpin(one(block), 1);
    model.change(model.pins, block, -1);
  } else {
    const taken = [...model.cached.values()].includes(pick % 20);
    expect(allocator.cache.insert(block, digest(pick % 20), 0, 0)).toBe(!taken);
    if (!taken) model.cached.set(block, pick % 20);
  }
}

describe("block allocator", () => {
  it("agrees with a plain model after any operations", () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 120 }), (operations) => {
        const allocator = new BlockAllocator(BLOCKS);
        const model = new Model();
        for (const one of operations) {
          apply(allocator, model, one);
          expect(allocator.freeBlocks()).toBe(model.free.length);
          expect(allocator.pinnedBlocks()).toBe(model.held(model.pins).length);
          expect(allocator.cache.size()).toBe(model.cached.size);
          expect(allocator.isFree(0)).toBe(false);
          for (let block = 1; block < BLOCKS; block++)
            expect(allocator.isFree(block)).toBe(model.free.includes(block));
          for (const [block, number] of model.cached)
            expect(allocator.cache.find(digest(number), 0, 0)).toBe(block);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("refuses the null block, ids out of range, and more releases than references", () => {
    const allocator = new BlockAllocator(4);
    for (const block of [0, 4, -1]) expect(() => allocator.release(block)).toThrow(/out of range/);
    expect(() => allocator.release(1)).toThrow(/released more often/);
    expect(() => allocator.unpin(Int32Array.of(1), 1)).toThrow(/unpinned more often/);
  });
});

describe("prefix cache", () => {
  it("finds exactly what is in it, in its group, whatever collides and whatever was removed", () => {
    const steps = fc.array(
      fc.record({
        block: fc.integer({ min: 0, max: 31 }),
        number: fc.nat(40),
        group: fc.nat(2),
        insert: fc.boolean(),
      }),
      { maxLength: 200 },
    );
    fc.assert(
      fc.property(steps, (all) => {
        const cache = new PrefixCache(32);
        const blockOf = new Map<string, number>();
        const keyOf = new Map<number, string>();
        for (const { block, number, group, insert } of all) {
          const key = `${number}.${group}`;
          if (insert && !keyOf.has(block)) {
            const fresh = !blockOf.has(key);
            expect(cache.insert(block, digest(number), 0, group)).toBe(fresh);
            if (!fresh) continue;
            blockOf.set(key, block);
            keyOf.set(block, key);
          } else if (!insert) {
            expect(cache.remove(block)).toBe(keyOf.has(block));
            blockOf.delete(keyOf.get(block) ?? "");
            keyOf.delete(block);
          }
        }
        expect(cache.size()).toBe(keyOf.size);
        for (let number = 0; number <= 40; number++)
          for (let group = 0; group <= 2; group++)
            expect(cache.find(digest(number), 0, group)).toBe(
              blockOf.get(`${number}.${group}`) ?? NONE,
            );
      }),
      { numRuns: 300 },
    );
  });
});
