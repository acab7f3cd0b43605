/**
 * Goal: ranks of one model share the work of saving without gaps, and never name different bytes alike.
 * Method: all ranks of several topologies; every chunk must be put exactly once per namespace that a lookup asks for.
 */
import { describe, expect, it } from "vitest";
import { normalizeKvCacheConfig, withRanks } from "../../src/config/kv-cache-normalize.ts";
import type { KvCacheConfig, KvCacheConfigInput } from "../../src/config/kv-cache-config.ts";
import {
  getRotation,
  modelNameInKeys,
  poolKey,
  poolKeyPrefixes,
} from "../../src/keys/pool-keys.ts";
import { putsChunk } from "../../src/keys/striping.ts";

const SHAPE: KvCacheConfigInput = {
  modelName: "meta-llama/Llama-3.1-8B/",
  dtype: "bfloat16",
  blockSize: 16,
  groups: [{ kind: "full", layers: 2 }],
  heads: { kvHeads: 2, headSize: 8 },
  blockCount: 8,
};
const ALONE = normalizeKvCacheConfig(SHAPE);

function ranksOf(
  tpSize: number,
  ppSize: number,
  pcpSize: number,
  dcpSize: number,
): KvCacheConfig[] {
  const first = normalizeKvCacheConfig({
    ...SHAPE,
    tp: { rank: 0, size: tpSize },
    pp: { rank: 0, size: ppSize },
    pcp: { rank: 0, size: pcpSize },
    dcp: { rank: 0, size: dcpSize },
  });
  const all: KvCacheConfig[] = [];
  for (let pp = 0; pp < ppSize; pp++) {
    for (let pcp = 0; pcp < pcpSize; pcp++) {
      for (let tp = 0; tp < tpSize; tp++) all.push(withRanks(first, { tp, pp, pcp }));
    }
  }
  return all;
}

describe("poolKeyPrefixes", () => {
  it("writes the documented form", () => {
    const prefix = "prod@Llama-3.1-8B@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0";
    const { groups, model } = poolKeyPrefixes(ALONE, { cachePrefix: "prod" });
    expect(model).toBe("Llama-3.1-8B");
    expect(groups).toEqual([
      { replication: 1, putStep: 1, putPhase: 0, own: [prefix], lookup: [prefix] },
    ]);
    expect(poolKey(prefix, "ab")).toBe(`${prefix}@ab`);
  });

  it("keeps deployments with different cache prefixes apart", () => {
    const keys = (cachePrefix: string): readonly string[] =>
      poolKeyPrefixes(ALONE, { cachePrefix }).groups[0]?.lookup ?? [];
    expect(keys("a")).not.toEqual(keys("b"));
    expect(keys("")).toEqual(["Llama-3.1-8B@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0"]);
  });

  it.each([
    [1, 1, 1, 1],
    [4, 1, 1, 1],
    [8, 2, 1, 1],
    [2, 1, 2, 1],
    [4, 1, 1, 2],
  ])("puts each chunk once per namespace: tp %i, pp %i, pcp %i, dcp %i", (tp, pp, pcp, dcp) => {
    const ranks = ranksOf(tp, pp, pcp, dcp);
    const first = poolKeyPrefixes(ranks[0] ?? ALONE, { cachePrefix: "" });
    for (let chunk = 0; chunk < 12; chunk++) {
      const put: string[] = [];
      for (const rank of ranks) {
        const [group] = poolKeyPrefixes(rank, { cachePrefix: "" }).groups;
        if (group === undefined) throw new Error("no group");
        expect(group.lookup).toEqual(first.groups[0]?.lookup);
        if (putsChunk(chunk, group.putStep, group.putPhase)) put.push(...group.own);
      }
      expect(put.toSorted()).toEqual([...(first.groups[0]?.lookup ?? [])].toSorted());
    }
  });
});

describe("striping", () => {
  it("gives each group another phase, so that ranks with identical bytes share the load of all groups", () => {
    const groups = [
      { kind: "full", layers: 1 },
      { kind: "full", layers: 1 },
    ] as const;
    const config = normalizeKvCacheConfig({ ...SHAPE, groups, tp: { rank: 1, size: 4 } });
    const prefixes = poolKeyPrefixes(config, { cachePrefix: "" });
    expect(prefixes.groups.map((group) => [group.putStep, group.putPhase])).toEqual([
      [2, 1],
      [2, 0],
    ]);
    expect(
      prefixes.groups.map((group) =>
        [0, 1, 2, 3].filter((chunk) => putsChunk(chunk, group.putStep, group.putPhase)),
      ),
    ).toEqual([
      [1, 3],
      [0, 2],
    ]);
  });
});

describe("names and rotation", () => {
  it("take the last path component", () => {
    expect(["a/b", "a", "/models/x//", "weird name@1"].map(modelNameInKeys)).toEqual([
      "b",
      "a",
      "x",
      "weird name@1",
    ]);
  });

  it("start within the list, and nowhere in an empty one", () => {
    expect([getRotation(5, 3), getRotation(0, 3), getRotation(3, 0)]).toEqual([2, 0, 0]);
  });
});
