/**
 * Goal: models with windows, recurrent states, blocks of several sizes, drafters and finer cut stores save in one request and load
 * in another, through the real actors and the local engine, byte for byte and nothing beside it.
 * Method: the public connector on real threads; each block has bytes of its own, and loads go into other blocks.
 */
import { afterEach, describe, expect, test } from "vitest";
import { tokens } from "./support/embedded.ts";
import { HybridLoop } from "./support/hybrid-loop.ts";
import type { Rows } from "./support/hybrid-loop.ts";
import { freshPoolName } from "./support/serving.ts";

const loops: HybridLoop[] = [];
afterEach(async () => {
  for (const hybrid of loops.splice(0)) {
    expect(hybrid.loop.pinned()).toEqual([]);
    expect(await hybrid.stop()).toBe(0);
  }
});
async function attach(...given: Parameters<typeof HybridLoop.attach>): Promise<HybridLoop> {
  const hybrid = await HybridLoop.attach(...given);
  loops.push(hybrid);
  return hybrid;
}
const range = (first: number, count: number): number[] =>
  Array.from({ length: count }, (_, index) => first + index);

/** Fills the saved blocks and remembers their bytes. */
function fillAll(hybrid: HybridLoop, saved: Rows): Map<number, Uint8Array> {
  const bytes = new Map<number, Uint8Array>();
  for (const block of saved.flat()) {
    hybrid.fill(block, 1);
    bytes.set(block, Uint8Array.from(hybrid.bytes(block)));
  }
  return bytes;
}
/** Of each pair the second block has the first one's bytes; the others still have none. */
function expectLoaded(
  hybrid: HybridLoop,
  bytes: Map<number, Uint8Array>,
  pairs: readonly (readonly [number, number])[],
  untouched: readonly number[],
): void {
  for (const [from, to] of pairs)
    expect(Buffer.compare(hybrid.bytes(to), bytes.get(from) ?? Buffer.alloc(0)), `${to}`).toBe(0);
  for (const block of untouched)
    expect([...new Set(hybrid.bytes(block))], `block ${block} is left alone`).toEqual([0]);
}
const pairs = (from: readonly number[], to: readonly number[]): [number, number][] =>
  to.map((block, index) => [from[index] ?? 0, block]);

describe("a sliding window beside full attention", () => {
  const groups = [
    { kind: "full", layers: 2 },
    { kind: "swa", layers: 3, slidingWindow: 40 },
  ] as const;

  test("a hit loads the window's blocks alone, and null blocks stay what they are", async () => {
    const hybrid = await attach({ groups });
    const saved = [range(1, 7), range(11, 7)] as const;
    const bytes = fillAll(hybrid, saved);
    hybrid.save("first", tokens(100, 1), saved);
    const found = hybrid.load("second", tokens(100, 1), () => [
      range(31, 7),
      [0, 0, 0, ...range(41, 4)],
    ]);
    expect(found).toBe(96);
    const window = pairs(range(14, 3), range(41, 3));
    expectLoaded(hybrid, bytes, [...pairs(range(1, 6), range(31, 6)), ...window], [0, 37, 44]);
    // A longer prompt with the same beginning goes on from where the window was kept.
    const longer = [...tokens(100, 1), ...tokens(60, 2)];
    const more = [range(48, 6), [0, 0, 0, ...range(58, 3)]];
    expect(hybrid.load("third", longer, () => more)).toBe(96);
  });

  test("blocks that leave the window while a prompt is computed are saved before, and rows shrink with it", async () => {
    const hybrid = await attach({ groups, retentionInterval: null });
    const saved = [range(1, 7), range(11, 7)] as const;
    const bytes = fillAll(hybrid, saved);
    const { scheduler } = hybrid.loop.attached.connector;
    scheduler.addRequest("first", tokens(100, 1));
    hybrid.loop.match("first");
    scheduler.updateStateAfterAlloc("first", [range(1, 4), range(11, 4)], 0);
    const work = { id: "first", newBlockIds: null, numScheduledTokens: 64, numComputedTokens: 0 };
    hybrid.loop.step([work]);
    const blockIds = [range(1, 7), [0, 0, ...range(13, 5)]];
    hybrid.loop.step([{ ...work, numComputedTokens: 64, numScheduledTokens: 36, blockIds }]);
    scheduler.requestFinished("first");
    hybrid.drain();
    // Every position can be resumed: here at the end of the first step.
    const rows = [range(31, 5), [0, ...range(41, 4)]];
    expect(hybrid.load("second", tokens(70, 1), () => rows)).toBe(64);
    const loaded = [...pairs(range(1, 4), range(31, 4)), ...pairs(range(12, 3), range(41, 3))];
    expectLoaded(hybrid, bytes, loaded, [0, 35, 44]);
  });
});

describe("recurrent states beside full attention", () => {
  const groups = [
    { kind: "full", layers: 3 },
    { kind: "mamba", layers: 2, blockSize: 64 },
  ] as const;

  test("a hit ends where a state was handed over, and loads that state alone", async () => {
    const hybrid = await attach({ groups, stateBytes: 700 });
    const saved = [range(1, 10), [21, 22, 23]];
    const bytes = fillAll(hybrid, saved);
    const states = [{ group: 1, block: 22, tokens: 128 }];
    hybrid.save("first", tokens(150, 1), saved, states);
    const rows = [range(31, 10), [0, 45, 46]];
    expect(hybrid.load("second", tokens(150, 1), () => rows)).toBe(128);
    expectLoaded(hybrid, bytes, [...pairs(range(1, 8), range(31, 8)), [22, 45]], [0, 39, 40, 46]);
  });

  test("hits inside of blocks: the prompt's tail and a state at its end", async () => {
    const hybrid = await attach({ groups, stateBytes: 700, cacheHitAlignmentTokens: 16 });
    const saved = [range(1, 10), [21, 22, 23]];
    const bytes = fillAll(hybrid, saved);
    hybrid.save("first", tokens(150, 1), saved, [{ group: 1, block: 23, tokens: 144 }]);
    const rows = [range(31, 10), [0, 0, 46]];
    expect(hybrid.load("second", tokens(150, 1), () => rows)).toBe(144);
    expectLoaded(hybrid, bytes, [...pairs(range(1, 9), range(31, 9)), [23, 46]], [0, 40]);
  });

  test("a request's last state is saved after it has ended", async () => {
    const hybrid = await attach({ groups, stateBytes: 700, cacheHitAlignmentTokens: 16 });
    const saved = [range(1, 10), [21, 22, 23]];
    const bytes = fillAll(hybrid, saved);
    const { scheduler } = hybrid.loop.attached.connector;
    scheduler.addRequest("first", tokens(150, 1));
    hybrid.loop.match("first");
    scheduler.updateStateAfterAlloc("first", saved, 0);
    hybrid.loop.step([
      { id: "first", numComputedTokens: 0, numScheduledTokens: 150, newBlockIds: null },
    ]);
    const states = [{ group: 1, block: 23, tokens: 144 }];
    scheduler.requestFinished("first", saved, { states, numComputedTokens: 150 });
    hybrid.drain();
    expect(hybrid.load("second", tokens(150, 1), () => [range(31, 10), [0, 0, 46]])).toBe(144);
    expectLoaded(hybrid, bytes, [[23, 46]], [0, 40]);
  });
});

test("groups with blocks of 16 and of 32 tokens", async () => {
  const groups = [
    { kind: "full", layers: 2 },
    { kind: "full", layers: 2, blockSize: 32 },
  ] as const;
  const hybrid = await attach({ groups });
  const saved = [range(1, 7), range(11, 4)];
  const bytes = fillAll(hybrid, saved);
  hybrid.save("first", tokens(110, 1), saved);
  const rows = [range(31, 7), range(41, 4)];
  expect(hybrid.load("second", tokens(110, 1), () => rows)).toBe(96);
  const loaded = [...pairs(range(1, 6), range(31, 6)), ...pairs(range(11, 3), range(41, 3))];
  expectLoaded(hybrid, bytes, loaded, [37, 44]);
});

test("a drafter has the last block of a hit computed anew", async () => {
  const hybrid = await attach({ useEagle: true });
  const saved = [range(1, 7)];
  const bytes = fillAll(hybrid, saved);
  hybrid.save("first", tokens(100, 1), saved);
  expect(hybrid.load("second", tokens(100, 1), () => [range(31, 7)])).toBe(80);
  expectLoaded(hybrid, bytes, pairs(range(1, 5), range(31, 5)), [36, 37]);
});

test("a store cut into 4 shards is shared by ranks of 2 and of 4", async () => {
  const extra = { pool_name: freshPoolName(), store_tp_size: 4 };
  const heads = { kvHeads: 8, headSize: 8 };
  const rank = (tp: number, size: number): Promise<HybridLoop> =>
    attach({ heads, layout: "LBHNC", tp: { rank: tp, size } }, extra);
  const two = [await rank(0, 2), await rank(1, 2)] as const;
  for (const [index, hybrid] of two.entries()) {
    for (const block of range(1, 7)) hybrid.fill(block, index + 1);
    hybrid.save("first", tokens(100, 1), [range(1, 7)]);
  }
  // Rank 1 of 2 again: two values a block.
  const [, second] = two;
  const wanted = range(1, 6).map((block) => Uint8Array.from(second.layers(block).flat()));
  expect(second.load("again", tokens(100, 1), () => [range(31, 7)])).toBe(96);
  range(31, 6).forEach((block, index) =>
    expect(Uint8Array.from(second.layers(block).flat())).toEqual(wanted[index]),
  );
  // Rank 3 of 4: the upper half of rank 1's heads.
  const fourth = await rank(3, 4);
  expect(fourth.load("other", tokens(100, 1), () => [range(41, 7)])).toBe(96);
  for (const index of range(0, 6)) {
    const whole = second.layers(1 + index);
    const part = fourth.layers(41 + index);
    expect(part).toEqual(whole.map((bytes) => bytes.slice(bytes.length / 2)));
  }
  // And what four ranks have saved, two ranks find.
  const four = [await rank(0, 4), await rank(1, 4), await rank(2, 4), fourth];
  for (const [index, hybrid] of four.entries()) {
    for (const block of range(11, 3)) hybrid.fill(block, index + 9);
    hybrid.save("back", tokens(50, 2), [range(11, 4)]);
  }
  expect(two[0].load("back", tokens(50, 2), () => [range(51, 4)])).toBe(48);
  for (const index of range(0, 3)) {
    const halves = [four[0], four[1]].map((hybrid) => hybrid?.layers(11 + index) ?? []);
    const whole = two[0].layers(51 + index);
    expect(whole).toEqual([0, 1].map((layer) => halves.flatMap((half) => half[layer] ?? [])));
  }
});
