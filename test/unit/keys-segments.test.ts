/**
 * Goal: memory whose blocks cannot be stored is refused, and never read beyond its end. Method: views made for each refusal; and
 * blocks that kernels cut in parts, which are stored as whole ones.
 */
import { describe, expect, it } from "vitest";
import { rankSegments, segmentRules, shardSegments, valueBytes } from "../../src/keys/segments.ts";
import type { KvTensor } from "../../src/keys/segments.ts";

/** Blocks, heads, layers, states, content: a head of one layer has the next layer's behind it. */
const headsApart: KvTensor = {
  shape: [4, 2, 16, 8],
  strideBytes: [2 * 3 * 16 * 8 * 2, 3 * 16 * 8 * 2, 16, 2],
  elementBytes: 2,
  storage: 0,
  storageBytes: 4 * 2 * 3 * 16 * 8 * 2,
  offset: 16 * 8 * 2,
};
const packed: KvTensor = {
  shape: [4, 2, 16, 8],
  strideBytes: [512, 256, 16, 2],
  elementBytes: 2,
  storage: 1,
  storageBytes: 4 * 512,
  offset: 0,
};

describe("segments", () => {
  it("refuse a block whose heads lie apart between layers, where vLLM overruns the storage", () => {
    expect(() => rankSegments([headsApart], 4)).toThrow(
      expect.objectContaining({ code: "UNSUPPORTED", field: "kvMemory" }),
    );
  });

  it("refuse to leave the storage", () => {
    expect(() => rankSegments([{ ...packed, storageBytes: 4 * 512 - 2 }], 4)).toThrow(
      expect.objectContaining({ code: "INVALID_VALUE" }),
    );
    expect(() => rankSegments([packed], 3)).toThrow(
      expect.objectContaining({ code: "INVALID_VALUE" }),
    );
  });

  it("take blocks that kernels cut in parts as whole ones", () => {
    const segments = rankSegments([packed], 2);
    expect(segments).toEqual([{ storage: 1, offset: 0, strideBytes: 1024, bytes: 1024 }]);
    expect(valueBytes(segments)).toBe(1024);
    expect(segmentRules(segments, [7, 8])).toEqual([
      { regionId: 8, offset: 0, strideBytes: 1024, bytes: 1024 },
    ]);
    expect(() => segmentRules(segments, [7])).toThrow(/storage 1/);
  });

  it("cut by head only what is packed in that layout", () => {
    const cut = { shards: 2, headsPerShard: 1 };
    expect(shardSegments([packed], 4, { ...cut, layout: "LBHNC" })).toEqual([
      [{ storage: 1, offset: 0, strideBytes: 512, bytes: 256 }],
      [{ storage: 1, offset: 256, strideBytes: 512, bytes: 256 }],
    ]);
    expect(() => shardSegments([packed], 4, { ...cut, layout: "LBNHC" })).toThrow(
      expect.objectContaining({ code: "INVALID_VALUE" }),
    );
    expect(() =>
      shardSegments([packed], 4, { layout: "LBHNC", shards: 4, headsPerShard: 1 }),
    ).toThrow(expect.objectContaining({ code: "INVALID_VALUE" }));
  });
});
