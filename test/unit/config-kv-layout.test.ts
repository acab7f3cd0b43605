/**
 * Goal: the KV cache layout is found as vLLM 0.33's `resolve_kv_cache_layout` finds it, in every case; what it refuses is refused.
 * Method: the rule on descriptions, variables and connectors; expectations are read off vLLM's source.
 */
import { describe, expect, test } from "vitest";
import { readEnvironment } from "../../src/config/environment.ts";
import type { KvCacheConfigInput, KvLayout } from "../../src/config/kv-cache-config.ts";
import { normalizeKvCacheConfig } from "../../src/config/kv-cache-normalize.ts";
import { connectorNames, resolveKvLayout } from "../../src/config/kv-layout.ts";
import { servedLayout } from "../../src/serving/serving-runtime.ts";

const PLAIN: KvCacheConfigInput = {
  modelName: "org/model",
  dtype: "float16",
  blockSize: 16,
  blockCount: 8,
  groups: [{ kind: "full", layers: 2 }],
  heads: { kvHeads: 8, headSize: 16 },
};
const ALIKE: KvCacheConfigInput["groups"] = [
  { kind: "full", layers: 2 },
  { kind: "swa", layers: 2, slidingWindow: 64 },
];
const UNLIKE: KvCacheConfigInput["groups"] = [
  { kind: "full", layers: 2 },
  { kind: "swa", layers: 2, slidingWindow: 64, heads: { kvHeads: 4, headSize: 16 } },
];
const STORE = { kv_connector: "MooncakeStoreConnector", kv_role: "kv_both" };
const DIRECT = { kv_connector: "MooncakeConnector", kv_role: "kv_both" };
const BOTH = {
  kv_connector: "MultiConnector",
  kv_role: "kv_both",
  kv_connector_extra_config: { connectors: [DIRECT, STORE] },
};

function found(
  variable: string | undefined,
  transfer: unknown = STORE,
  input: Partial<KvCacheConfigInput> = {},
): string {
  const { kvCacheLayout } = readEnvironment({ VLLM_KV_CACHE_LAYOUT: variable });
  const { layout, source } = resolveKvLayout({
    stated: input.layout,
    requested: kvCacheLayout,
    connectors: connectorNames(transfer),
    model: normalizeKvCacheConfig({ ...PLAIN, ...input }),
  });
  return `${layout} ${source}`;
}

describe("the environment", () => {
  test.each<[string, KvLayout]>([
    ["NHD", "LBNHC"],
    ["HND", "LBHNC"],
    ["LBNHC", "LBNHC"],
    ["LBHNC", "LBHNC"],
    ["LHBNC", "LHBNC"],
    ["BLHNC", "BLHNC"],
    ["BLNHC", "BLNHC"],
  ])("%s asks for %s, whatever a connector asks for", (variable, layout) => {
    expect(found(variable)).toBe(`${layout} environment`);
    expect(found(variable, BOTH)).toBe(`${layout} environment`);
  });

  test.each(["", "nhd", "hnd", " HND", "LNHBC", "auto", "none"])(
    "%j is refused by name, as vLLM refuses it",
    (variable) => {
      expect(() => found(variable)).toThrow(
        expect.objectContaining({
          code: "INVALID_VALUE",
          field: "VLLM_KV_CACHE_LAYOUT",
          value: variable,
          remedy: expect.stringContaining("HND"),
        }),
      );
    },
  );

  test("BHLNC is vLLM's, and this build has no such memory", () => {
    const refusal = { code: "UNSUPPORTED", field: "VLLM_KV_CACHE_LAYOUT" };
    expect(() => found("BHLNC")).toThrow(expect.objectContaining(refusal));
  });
});

describe("unset", () => {
  test("LBNHC, also with settings of the store's connector", () => {
    expect(found(undefined)).toBe("LBNHC default");
    expect(found(undefined, undefined)).toBe("LBNHC default");
    const extra = { enable_cross_layers_blocks: true, store_tp_size: 4 };
    expect(found(undefined, { ...STORE, kv_connector_extra_config: extra })).toBe("LBNHC default");
    expect(found(undefined, STORE, { groups: ALIKE })).toBe("LBNHC default");
    expect(normalizeKvCacheConfig(PLAIN).layout).toBe("LBNHC");
  });

  test("LBHNC wherever a MooncakeConnector is, however deep, as object or as text", () => {
    const deep = { ...BOTH, kv_connector_extra_config: { connectors: [STORE, BOTH] } };
    for (const transfer of [DIRECT, BOTH, deep, JSON.stringify(deep)])
      expect(found(undefined, transfer)).toBe("LBHNC connector");
  });

  test("a model with MLA needs no order of heads", () => {
    const heads = { kvHeads: 1, headSize: 576 };
    for (const groups of [
      [{ kind: "mla", layers: 2 }],
      [
        { kind: "mla", layers: 2 },
        { kind: "swa_mla", layers: 2, slidingWindow: 64 },
      ],
    ] as KvCacheConfigInput["groups"][])
      expect(found(undefined, BOTH, { groups, heads })).toBe("LBNHC default");
  });

  test.each(["{", "5", 5, null, [], { kv_connector: 5 }, { kv_connector_extra_config: null }])(
    "%j names no connector",
    (transfer) => expect(connectorNames(transfer)).toEqual([]),
  );
});

describe("groups with unlike shapes need a block-compact layout", () => {
  test("the default is one, and so is what a MooncakeConnector asks for", () => {
    expect(found(undefined, STORE, { groups: UNLIKE })).toBe("LBNHC default");
    expect(found(undefined, BOTH, { groups: UNLIKE })).toBe("LBHNC connector");
    for (const variable of ["NHD", "HND", "BLHNC", "BLNHC"])
      expect(found(variable, STORE, { groups: UNLIKE })).toMatch(/environment$/);
  });

  test.each(["LHBNC", "BHLNC"])("%s is refused", (variable) => {
    expect(() => found(variable, STORE, { groups: UNLIKE })).toThrow(
      expect.objectContaining({
        code: "INVALID_VALUE",
        field: "VLLM_KV_CACHE_LAYOUT",
        remedy: expect.stringContaining("BLHNC"),
      }),
    );
  });
  test("groups that differ in their window only are alike", () => {
    expect(found("LHBNC", STORE, { groups: ALIKE })).toBe("LHBNC environment");
  });
  test("states beside attention are unlike", () => {
    const groups: KvCacheConfigInput["groups"] = [
      { kind: "full", layers: 2 },
      { kind: "mamba", layers: 2 },
    ];
    expect(() => found("LHBNC", STORE, { groups, stateBytes: 4096 })).toThrow(/unlike shapes/);
  });
});

test("a stated layout wins outright; a variable that differs is told", () => {
  expect(found("HND", BOTH, { layout: "BLNHC" })).toBe("BLNHC kvCache.layout");
  const choose = (stated: KvLayout, requested: KvLayout): readonly unknown[] =>
    resolveKvLayout({ stated, requested, connectors: [], model: null }).warnings;
  expect(choose("LBHNC", "LBHNC")).toEqual([]);
  expect(choose("LBHNC", "LBNHC")).toMatchObject([
    { field: "VLLM_KV_CACHE_LAYOUT", problem: expect.stringContaining("another order") },
  ]);
  expect(choose("LBHNC", "BLHNC")).toMatchObject([
    { problem: expect.stringContaining("same bytes") },
  ]);
});

test("serve keeps the layout of its graph, and warns when the environment asks for another", () => {
  expect(servedLayout(undefined)).toMatchObject({ layout: "BLHNC", warnings: [] });
  expect(servedLayout("BLHNC").warnings).toEqual([]);
  for (const requested of ["LBNHC", "LBHNC", "BHLNC"] as const)
    expect(servedLayout(requested)).toMatchObject({
      layout: "BLHNC",
      warnings: [{ field: "VLLM_KV_CACHE_LAYOUT", value: requested }],
    });
});
