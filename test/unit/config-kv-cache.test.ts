/**
 * Goal: a KV-cache description is complete and consistent behind `normalizeKvCacheConfig`, or refused with the field named.
 * Method: one good input, changed field by field; sizes computed by hand.
 */
import { describe, expect, it } from "vitest";
import {
  blockBytes,
  groupSpanTokens,
  layerBytes,
  localKvHeads,
  schedulerBlockSize,
} from "../../src/config/kv-cache-config.ts";
import type { KvCacheConfigInput } from "../../src/config/kv-cache-config.ts";
import { normalizeKvCacheConfig, withRanks } from "../../src/config/kv-cache-normalize.ts";

const GOOD: KvCacheConfigInput = {
  modelName: "org/model",
  dtype: "float16",
  blockSize: 16,
  groups: [{ kind: "full", layers: 2 }],
  heads: { kvHeads: 8, headSize: 16 },
  blockCount: 64,
};

describe("normalizeKvCacheConfig", () => {
  it("fills the defaults and freezes", () => {
    const config = normalizeKvCacheConfig(GOOD);
    const alone = { rank: 0, size: 1 };
    expect(config).toEqual({
      ...GOOD,
      layout: "LBNHC",
      hashBlockSize: 16,
      groups: [
        {
          kind: "full",
          layers: 2,
          blockSize: 16,
          slidingWindow: null,
          extraRetainedTokens: 0,
          eagle: false,
        },
      ],
      stateBytes: 0,
      useEagle: false,
      retentionInterval: 0,
      cacheHitAlignmentTokens: null,
      tp: alone,
      pp: alone,
      pcp: alone,
      dcp: alone,
      dp: alone,
      hashAlgorithm: "sha256",
      hashLookaheadTokens: 0,
      weightsFingerprint: null,
    });
    expect(
      Object.isFrozen(config) &&
        Object.isFrozen(config.groups) &&
        Object.isFrozen(config.groups[0]),
    ).toBe(true);
    expect(normalizeKvCacheConfig(config)).toEqual(config);
    expect(structuredClone(config)).toEqual(config);
  });

  it("counts bytes, heads and spans", () => {
    const config = normalizeKvCacheConfig({ ...GOOD, tp: { rank: 1, size: 2 } });
    expect(localKvHeads(config)).toBe(4);
    // 2 layers x 4 heads x 16 tokens x (key and value of 16 elements) x 2 bytes.
    expect(blockBytes(config, 0)).toBe(2 * 4 * 16 * 32 * 2);
    expect(localKvHeads(normalizeKvCacheConfig({ ...GOOD, tp: { rank: 0, size: 16 } }))).toBe(1);
    const dcp = normalizeKvCacheConfig({
      ...GOOD,
      tp: { rank: 3, size: 4 },
      dcp: { rank: 1, size: 2 },
    });
    expect(dcp.groups.map((group) => groupSpanTokens(dcp, group))).toEqual([32]);
    expect([schedulerBlockSize(dcp), dcp.hashBlockSize]).toEqual([32, 32]);
  });

  it("takes the common divisor as hash block size of several groups, and the common multiple for the scheduler", () => {
    const config = normalizeKvCacheConfig({
      ...GOOD,
      groups: [
        { kind: "full", layers: 1, blockSize: 48 },
        { kind: "full", layers: 1, blockSize: 32 },
      ],
    });
    expect([config.hashBlockSize, schedulerBlockSize(config)]).toEqual([16, 96]);
    expect(normalizeKvCacheConfig({ ...config, hashBlockSize: 8 }).hashBlockSize).toBe(8);
  });

  it("moves to another rank", () => {
    const config = normalizeKvCacheConfig({
      ...GOOD,
      tp: { rank: 0, size: 4 },
      dcp: { rank: 0, size: 2 },
    });
    const moved = withRanks(config, { tp: 3 });
    expect([moved.tp.rank, moved.dcp.rank]).toEqual([3, 1]);
  });

  it("gives a group's own heads and states to its bytes; pages are as large as the largest", () => {
    const config = normalizeKvCacheConfig({
      ...GOOD,
      tp: { rank: 0, size: 2 },
      stateBytes: 100,
      groups: [
        { kind: "full", layers: 2 },
        { kind: "swa", layers: 3, slidingWindow: 64, heads: { kvHeads: 2, headSize: 32 } },
        { kind: "mamba", layers: 1 },
        { kind: "mamba", layers: 1, stateBytes: 5000 },
      ],
    });
    // Heads on a rank, tokens, key and value, elements, their bytes.
    const bytes = [4 * 16 * 2 * 16 * 2, 1 * 16 * 2 * 32 * 2, 100, 5000];
    expect(config.groups.map((group) => layerBytes(config, group))).toEqual(bytes);
    expect(blockBytes(config, 1)).toBe(3 * 5000);
    expect(normalizeKvCacheConfig(config)).toEqual(config);
    expect(withRanks(config, { tp: 1 }).groups).toEqual(config.groups);
  });

  it.each<[string, Record<string, unknown>, string, string]>([
    ["an empty model name", { modelName: "//" }, "modelName", "MISSING"],
    ["an unknown dtype", { dtype: "int4" }, "dtype", "INVALID_VALUE"],
    ["an unknown layout", { layout: "NHD" }, "layout", "INVALID_VALUE"],
    ["a block size of 0", { blockSize: 0 }, "blockSize", "INVALID_VALUE"],
    ["a block size as text", { blockSize: "16" }, "blockSize", "INVALID_TYPE"],
    ["no heads", { heads: undefined }, "heads.kvHeads", "MISSING"],
    ["no groups", { groups: [] }, "groups", "INVALID_VALUE"],
    [
      "an unknown kind",
      { groups: [{ kind: "cross", layers: 1 }] },
      "groups[0].kind",
      "UNSUPPORTED",
    ],
    [
      "a window without its size",
      { groups: [{ kind: "swa", layers: 1 }] },
      "groups[0].slidingWindow",
      "MISSING",
    ],
    [
      "a window of full attention",
      { groups: [{ kind: "full", layers: 1, slidingWindow: 8 }] },
      "groups[0].slidingWindow",
      "INVALID_VALUE",
    ],
    [
      "a retention of attention that keeps everything",
      { retentionInterval: 32 },
      "retentionInterval",
      "INVALID_VALUE",
    ],
    [
      "a retention that ends inside of blocks",
      { groups: [{ kind: "swa", layers: 1, slidingWindow: 8 }], retentionInterval: 24 },
      "retentionInterval",
      "INVALID_VALUE",
    ],
    [
      "a state of unknown size",
      { groups: [{ kind: "mamba", layers: 1 }] },
      "stateBytes",
      "MISSING",
    ],
    ["another algorithm", { hashAlgorithm: "md5" }, "hashAlgorithm", "UNSUPPORTED"],
    ["a rank out of range", { tp: { rank: 2, size: 2 } }, "tp.rank", "INVALID_VALUE"],
    ["uneven heads", { tp: { rank: 0, size: 3 } }, "tp.size", "INVALID_VALUE"],
    ["dcp not dividing tp", { dcp: { rank: 0, size: 2 } }, "dcp.size", "INVALID_VALUE"],
    [
      "a dcp rank of its own",
      { tp: { rank: 1, size: 2 }, dcp: { rank: 0, size: 2 } },
      "dcp.rank",
      "INVALID_VALUE",
    ],
    [
      "stages with context ranks",
      { pp: { rank: 0, size: 2 }, pcp: { rank: 0, size: 2 } },
      "pcp.size",
      "UNSUPPORTED",
    ],
    [
      "context ranks with several groups",
      {
        pcp: { rank: 0, size: 2 },
        groups: [
          { kind: "full", layers: 1 },
          { kind: "full", layers: 1 },
        ],
      },
      "pcp.size",
      "UNSUPPORTED",
    ],
    [
      "context ranks with a window",
      { pcp: { rank: 0, size: 2 }, groups: [{ kind: "swa", layers: 1, slidingWindow: 64 }] },
      "pcp.size",
      "UNSUPPORTED",
    ],
    [
      "heads of a group that are no numbers",
      { groups: [{ kind: "full", layers: 1, heads: { kvHeads: 0, headSize: 16 } }] },
      "groups[0].heads.kvHeads",
      "INVALID_VALUE",
    ],
    [
      "heads of a group that cannot be cut",
      {
        tp: { rank: 0, size: 4 },
        groups: [{ kind: "full", layers: 1, heads: { kvHeads: 6, headSize: 16 } }],
      },
      "tp.size",
      "INVALID_VALUE",
    ],
    [
      "heads of states",
      {
        groups: [{ kind: "mamba", layers: 1, stateBytes: 64, heads: { kvHeads: 1, headSize: 1 } }],
      },
      "groups[0].heads",
      "INVALID_VALUE",
    ],
    [
      "states of attention",
      { groups: [{ kind: "full", layers: 1, stateBytes: 64 }] },
      "groups[0].stateBytes",
      "INVALID_VALUE",
    ],
    ["a finer hash with one group", { hashBlockSize: 8 }, "hashBlockSize", "INVALID_VALUE"],
    ["one block", { blockCount: 1 }, "blockCount", "INVALID_VALUE"],
  ])("refuses %s", (_name, change, field, code) => {
    const input = { ...GOOD, ...change } as KvCacheConfigInput;
    expect(() => normalizeKvCacheConfig(input)).toThrow(
      expect.objectContaining({ field, code, remedy: expect.stringMatching(/\w{3}/) }),
    );
  });
});
