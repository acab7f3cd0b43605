/**
 * Goal: the shared tables count in the chunks that pool keys name, whatever the ranks, and know each group's blocks.
 * Method: KV caches with decode-context ranks, several groups and finer hash blocks; spans computed by hand.
 */
import { describe, expect, it } from "vitest";
import type { KvCacheConfigInput } from "../../src/config/kv-cache-config.ts";
import { normalizeKvCacheConfig } from "../../src/config/kv-cache-normalize.ts";
import { tableDimensions } from "../../src/config/table-dimensions.ts";

const PLAIN: KvCacheConfigInput = {
  modelName: "org/model",
  dtype: "float16",
  blockSize: 16,
  groups: [{ kind: "full", layers: 2 }],
  heads: { kvHeads: 8, headSize: 16 },
  blockCount: 64,
};
const SIZES = {
  requestSlots: 8,
  jobSlots: 32,
  tokensPerRequestMax: 256,
  tokensMax: 1024,
  stepSequencesMax: 0,
};
const dimensionsOf = (input: Partial<KvCacheConfigInput>) =>
  tableDimensions(normalizeKvCacheConfig({ ...PLAIN, ...input }), SIZES);

describe("tableDimensions", () => {
  it("takes a block of one rank as a chunk when the context is not cut", () => {
    expect(dimensionsOf({})).toEqual({
      ...SIZES,
      hashBlockSize: 16,
      hashLookaheadTokens: 0,
      extraEncoding: "pickle",
      blockSize: 16,
      groups: 1,
      groupSpanTokens: [16],
      blockCount: 64,
    });
  });

  it("counts a block over all decode-context ranks as one chunk with a whole number of hash blocks", () => {
    const cut = { tp: { rank: 1, size: 2 }, dcp: { rank: 1, size: 2 } };
    expect(dimensionsOf(cut)).toMatchObject({ blockSize: 32, hashBlockSize: 32 });
    const groups = [
      { kind: "full", layers: 1 },
      { kind: "full", layers: 1 },
    ] as const;
    const finer = dimensionsOf({ ...cut, groups, hashBlockSize: 8 });
    expect(finer).toMatchObject({ blockSize: 32, hashBlockSize: 8, groups: 2 });
  });

  it("takes the group's own block size where it is not the cache's", () => {
    const groups = [{ kind: "full", layers: 1, blockSize: 32 }] as const;
    expect(dimensionsOf({ groups })).toMatchObject({ blockSize: 32, hashBlockSize: 32 });
  });

  it("takes a chunk that is whole blocks in every group, whatever these span and need", () => {
    const groups = [
      { kind: "full", layers: 1, blockSize: 48 },
      { kind: "swa", layers: 1, blockSize: 32, slidingWindow: 100 },
      { kind: "mamba", layers: 1, blockSize: 32 },
    ] as const;
    expect(dimensionsOf({ groups, stateBytes: 64 })).toMatchObject({
      blockSize: 96,
      hashBlockSize: 16,
      groups: 3,
      groupSpanTokens: [48, 32, 32],
    });
  });

  it("does not spread a recurrent state over decode-context ranks", () => {
    const groups = [
      { kind: "full", layers: 1 },
      { kind: "mamba", layers: 1 },
    ] as const;
    const cut = { tp: { rank: 0, size: 2 }, dcp: { rank: 0, size: 2 } };
    expect(dimensionsOf({ groups, ...cut, stateBytes: 64 })).toMatchObject({
      blockSize: 32,
      groupSpanTokens: [32, 16],
    });
  });
});
