/**
 * Goal: a server with the built-in scheduler refuses models whose blocks it cannot plan, by name and with the way out.
 * Method: KV caches of each kind, and settings that cut the store finer.
 */
import { expect, test } from "vitest";
import { refusePlans } from "../../src/actors/runtime/refuse-plans.ts";
import { readEnvironment } from "../../src/config/environment.ts";
import type { KvCacheConfigInput } from "../../src/config/kv-cache-config.ts";
import { normalizeKvCacheConfig } from "../../src/config/kv-cache-normalize.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";

const PLAIN: KvCacheConfigInput = {
  modelName: "m",
  dtype: "float16",
  layout: "LBHNC",
  blockSize: 16,
  groups: [{ kind: "full", layers: 2 }],
  heads: { kvHeads: 8, headSize: 16 },
  tp: { rank: 0, size: 2 },
  blockCount: 8,
};
const check = (input: Partial<KvCacheConfigInput>, extra: object = {}): void => {
  const settings = {
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_both",
    kv_connector_extra_config: { engine: "local", ...extra },
  };
  const { config } = parseTransferConfig(settings, readEnvironment({}));
  refusePlans(normalizeKvCacheConfig({ ...PLAIN, ...input }), config);
};

test("attention of one block size passes, in several groups and in the rank's own shape too", () => {
  check({});
  check({
    groups: [
      { kind: "full", layers: 2 },
      { kind: "mla", layers: 1 },
    ],
  });
  check({}, { store_tp_size: 2 });
});

test.each<[string, Partial<KvCacheConfigInput>]>([
  ["a window", { groups: [{ kind: "swa", layers: 1, slidingWindow: 32 }] }],
  ["states", { groups: [{ kind: "mamba", layers: 1 }], stateBytes: 64 }],
  ["a drafter", { useEagle: true }],
  [
    "blocks of two sizes",
    {
      groups: [
        { kind: "full", layers: 1 },
        { kind: "full", layers: 1, blockSize: 32 },
      ],
    },
  ],
])("%s is refused", (_, input) => {
  expect(() => check(input)).toThrow(
    expect.objectContaining({
      code: "UNSUPPORTED",
      field: "kvCache.groups",
      remedy: expect.stringContaining("attachConnector"),
    }),
  );
});

test("blocks cut into several values are refused", () => {
  expect(() => check({}, { store_tp_size: 4 })).toThrow(
    expect.objectContaining({
      code: "UNSUPPORTED",
      field: "kv_connector_extra_config.store_tp_size",
    }),
  );
});
