/**
 * Goal: the traps of keys and segments. A prefix of None is a text; groups are counted as the keys count them; a store size that
 * cannot be served gives a namespace of its own; two pipeline stages must not write one key; a layout that overruns its storage is
 * no layout; groups of hybrid models share storages, so that each value holds all regions of its block.
 * Method: settings as they are pasted, through parsing into keys; segments of a small hybrid model.
 */
import { describe, expect, test } from "vitest";
import { readEnvironment } from "../../../src/config/environment.ts";
import type { KvCacheConfigInput } from "../../../src/config/kv-cache-config.ts";
import { normalizeKvCacheConfig } from "../../../src/config/kv-cache-normalize.ts";
import { parseTransferConfig } from "../../../src/config/transfer-config.ts";
import { hitRules } from "../../../src/keys/coordinator/hit-rules.ts";
import { answerLookup, lookupKeys, planLookup } from "../../../src/keys/coordinator/lookup-plan.ts";
import { blockSegments } from "../../../src/keys/kv-tensors.ts";
import { poolKey, poolKeyPrefixes } from "../../../src/keys/pool-keys.ts";
import { valueBytes } from "../../../src/keys/segments.ts";

const MODEL: KvCacheConfigInput = {
  modelName: "org/model/",
  dtype: "float16",
  blockSize: 16,
  groups: [{ kind: "full", layers: 2 }],
  heads: { kvHeads: 8, headSize: 16 },
  blockCount: 64,
};
const KV_CACHE = normalizeKvCacheConfig(MODEL);

function prefixOf(extra: Record<string, unknown>): string {
  const given = {
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_both",
    kv_connector_extra_config: { engine: "local", ...extra },
  };
  const { config } = parseTransferConfig(given, readEnvironment({}));
  const keys = poolKeyPrefixes(KV_CACHE, { cachePrefix: config.cachePrefix });
  return poolKey(keys.groups[0]?.own[0] ?? "", "ff");
}

describe("trap 5: keys", () => {
  const bare = "model@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@ff";
  test("the prefix goes through Python's str()", () => {
    expect(prefixOf({})).toBe(bare);
    expect(prefixOf({ cache_prefix: "" })).toBe(bare);
    expect(prefixOf({ cache_prefix: "team" })).toBe(`team@${bare}`);
    expect(prefixOf({ cache_prefix: null })).toBe(`None@${bare}`);
    expect(prefixOf({ cache_prefix: false })).toBe(`False@${bare}`);
  });

  test("groups are numbered as they are listed", () => {
    const two = normalizeKvCacheConfig({
      ...MODEL,
      groups: [
        { kind: "full", layers: 1 },
        { kind: "full", layers: 1 },
      ],
    });
    const { groups } = poolKeyPrefixes(two, { cachePrefix: "" });
    expect(groups.map(({ own }) => own[0])).toEqual([
      expect.stringMatching(/@group:0$/),
      expect.stringMatching(/@group:1$/),
    ]);
  });

  test("a store size that cannot be served is a namespace of the rank's own shape", () => {
    const rank = normalizeKvCacheConfig({ ...MODEL, layout: "LBHNC", tp: { rank: 1, size: 2 } });
    const own = (storeTpSize: unknown): string =>
      poolKeyPrefixes(rank, { cachePrefix: "", storeTp: { storeTpSize } }).groups[0]?.own[0] ?? "";
    expect(own(4)).toMatch(/^model@store_tp:4@store_pp:1@store_format:tp_shared_lbhnc@tp_rank:/);
    for (const invalid of [3, 0, -4, "4", 1.5, true])
      expect(own(invalid)).toMatch(
        /^model@store_pp:1@store_format:rank_local_tp2_layout_LBHNC@tp_rank:1@/,
      );
  });
});

describe("trap 8: hybrid groups", () => {
  const hybrid = normalizeKvCacheConfig({
    ...MODEL,
    groups: [
      { kind: "full", layers: 2 },
      { kind: "swa", layers: 2, slidingWindow: 32 },
    ],
  });

  test("a block of any group carries all regions that the groups share", () => {
    const segments = blockSegments(hybrid);
    expect(segments).toHaveLength(2);
    const [full, window] = segments;
    expect(full).toEqual(window);
    const block = 8 * 16 * 2 * 16 * 2;
    expect(valueBytes(full?.[0] ?? [])).toBe(2 * block);
  });

  test("a hit on the whole prompt is derived again below it, so that the last token is computed", () => {
    const rules = hitRules({
      groups: [
        { kind: "full", spanTokens: 16 },
        { kind: "swa", spanTokens: 16, slidingWindow: 32 },
      ],
      hashBlockSize: 16,
    });
    for (const [tokens, hit] of [
      [64, 48],
      [65, 64],
      [16, 0],
    ] as const) {
      const plan = planLookup(rules, { tokens, hashes: Math.floor(tokens / 16) });
      const exists = new Uint8Array(lookupKeys(plan, [1, 1])).fill(1);
      expect(answerLookup(rules, plan, [1, 1], exists).hitTokens).toBe(hit);
    }
  });
});

describe("trap 9: faults of vLLM that are not copied", () => {
  test("pipeline stages with prefill-context ranks would share keys: refused", () => {
    const both = { ...MODEL, pp: { rank: 0, size: 2 }, pcp: { rank: 0, size: 2 } };
    expect(() => normalizeKvCacheConfig(both)).toThrow(
      expect.objectContaining({ code: "UNSUPPORTED", field: "pcp.size" }),
    );
  });

  test("BHLNC, whose segments overrun the storage, is refused", () => {
    const layout = "BHLNC" as "LBHNC";
    expect(() => normalizeKvCacheConfig({ ...MODEL, layout })).toThrow(
      expect.objectContaining({ code: "INVALID_VALUE", field: "layout", value: "BHLNC" }),
    );
  });
});

describe("trap 10: values", () => {
  test.each(["LBHNC", "LBNHC", "LHBNC", "BLHNC", "BLNHC"] as const)(
    "%s: the segments of a block together are its value, no byte more or less, inside the storage",
    (layout) => {
      const config = normalizeKvCacheConfig({ ...MODEL, layout });
      const [segments = []] = blockSegments(config)[0] ?? [];
      const block = 2 * 8 * 16 * 2 * 16 * 2;
      expect(valueBytes(segments)).toBe(block);
      const ends = segments.map(
        ({ offset, strideBytes, bytes }) => offset + (config.blockCount - 1) * strideBytes + bytes,
      );
      expect(Math.max(...ends)).toBeLessThanOrEqual(block * config.blockCount);
    },
  );
});
