/**
 * Goal: the traps of settings. Keys that no page describes are known all the same; the lookup socket's name is vLLM's to the letter;
 * errors of the store's file are of Python's kind; the file has gained a tenant.
 * Method: settings as they are pasted; Python's answers are in the golden store_config file, whose kinds of error are counted here.
 */
import { describe, expect, test } from "vitest";
import { readEnvironment } from "../../../src/config/environment.ts";
import { EXTRA_CONFIG_KEYS } from "../../../src/config/extra-config.ts";
import { lookupSocketAddress } from "../../../src/config/lookup-socket.ts";
import { parseSizeBytes } from "../../../src/config/sizes.ts";
import { parseStoreConfig } from "../../../src/config/store-config.ts";
import { normalizeKvCacheConfig } from "../../../src/config/kv-cache-normalize.ts";
import { keyNamespaceOf, poolKeyPrefixes } from "../../../src/keys/pool-keys.ts";
import { parseTransferConfig } from "../../../src/config/transfer-config.ts";
import { readVectors } from "../../vectors/vectors.ts";

describe("trap 11: settings without a page of their own", () => {
  test.each([
    "enable_lookup",
    "save_decode_cache",
    "store_tp_size",
    "enable_store_tp_lcm",
    "prefill_tp_sizes",
    "enable_group_semantics",
    "custom_mem_pool",
    "preferred_segment",
  ])("%s is known", (key) => {
    expect(EXTRA_CONFIG_KEYS).toContain(key);
  });

  test("a store size that cannot be followed keeps this rank's blocks apart, and is never ignored", () => {
    const ownKeys = (extra: object): readonly string[] => {
      const settings = {
        kv_connector: "MooncakeStoreConnector",
        kv_role: "kv_both",
        kv_connector_extra_config: { engine: "local", ...extra },
      };
      const { config } = parseTransferConfig(settings, readEnvironment({}));
      const topology = normalizeKvCacheConfig({
        modelName: "m",
        dtype: "float16",
        layout: "LBHNC",
        blockSize: 16,
        groups: [{ kind: "full", layers: 1 }],
        heads: { kvHeads: 8, headSize: 16 },
        tp: { rank: 1, size: 2 },
        blockCount: 8,
      });
      return poolKeyPrefixes(topology, keyNamespaceOf(config)).groups[0]?.own ?? [];
    };
    const rank = (namespace: string, tp: number): string =>
      `m${namespace}@tp_rank:${tp}@pcp0@dcp0@pp_rank:0@group:0`;
    const shards = "@store_tp:4@store_pp:1@store_format:tp_shared_lbhnc";
    const apart = "@store_pp:1@store_format:rank_local_tp2_layout_LBHNC";
    expect(ownKeys({ store_tp_size: 4 })).toEqual([rank(shards, 2), rank(shards, 3)]);
    const sizes = { enable_store_tp_lcm: true, prefill_tp_sizes: [4, 2] };
    expect(ownKeys(sizes)).toEqual(ownKeys({ store_tp_size: 4 }));
    for (const extra of [
      { store_tp_size: 3 },
      { store_tp_size: "4" },
      { enable_store_tp_lcm: true },
    ])
      expect(ownKeys(extra)).toEqual([rank(apart, 1)]);
    // Switched off, as vLLM reads it: only `true` itself switches the common multiple on.
    for (const extra of [{ store_tp_size: null }, { enable_store_tp_lcm: "true" }])
      expect(ownKeys(extra)).toEqual([rank("", 1)]);
  });
});

describe("trap 12: the lookup socket", () => {
  const parts = {
    basePath: "/run/vllm",
    temporaryFolder: "/tmp",
    port: "0",
    hostName: "node-1",
    dataParallelRank: 0,
  };
  test("folder, port as a text, host name and data-parallel rank", () => {
    expect(lookupSocketAddress(parts)).toBe(
      "ipc:///run/vllm/lookup_rpc_port_0_host_node-1_dp_rank0",
    );
    expect(lookupSocketAddress({ ...parts, basePath: null, dataParallelRank: 3 })).toBe(
      "ipc:///tmp/lookup_rpc_port_0_host_node-1_dp_rank3",
    );
  });

  test.each([
    [{}, "0"],
    [{ lookup_rpc_port: 7 }, "7"],
    [{ lookup_rpc_port: "abc" }, "abc"],
    [{ lookup_rpc_port: null }, "None"],
    [{ lookup_rpc_port: true }, "True"],
  ])("%j is written as Python prints it", (extra, port) => {
    const { config } = parseTransferConfig(
      {
        kv_connector: "MooncakeStoreConnector",
        kv_role: "kv_both",
        kv_connector_extra_config: { engine: "local", ...extra },
      },
      readEnvironment({ VLLM_RPC_BASE_PATH: "" }),
    );
    expect(config.lookupRpcPort).toBe(port);
    expect(lookupSocketAddress({ ...parts, port: config.lookupRpcPort })).toContain(`_${port}_`);
  });
});

describe("trap 13: the kind of error is what counts, not Python's text", () => {
  interface Case {
    readonly error?: string;
  }
  const { sizes, files } = readVectors<{
    sizes: readonly (Case & { value: unknown })[];
    files: readonly (Case & { file: unknown })[];
  }>("store_config");
  const codeOf = (call: () => unknown): unknown => {
    try {
      call();
      return undefined;
    } catch (error) {
      return (error as { code: unknown }).code;
    }
  };
  const kinds = { ValueError: "INVALID_VALUE", TypeError: "INVALID_TYPE" } as const;

  test.each(Object.entries(kinds))("%s is %s", (python, code) => {
    const wrongSizes = sizes.filter(({ error }) => error === python);
    const wrongFiles = files.filter(({ error }) => error === python);
    expect(wrongSizes.length + wrongFiles.length).toBeGreaterThan(0);
    for (const { value } of wrongSizes)
      expect(
        codeOf(() => parseSizeBytes(value, "size")),
        JSON.stringify(value),
      ).toBe(code);
    for (const { file } of wrongFiles)
      expect(
        codeOf(() => parseStoreConfig(file)),
        JSON.stringify(file),
      ).toBe(code);
  });

  test("what Python takes is taken: nothing, what nobody knows, and texts for true", () => {
    expect(parseStoreConfig({})).toMatchObject({ mode: "embedded", enableOffload: false });
    const odd = { enable_offload: "false", no_such_field: 1 };
    expect(parseStoreConfig(odd)).toMatchObject({ enableOffload: true });
  });
});

test("trap 6: the store's file has gained a tenant", () => {
  expect(parseStoreConfig({}).tenantId).toBe("default");
  expect(parseStoreConfig({ tenant_id: " team " }).tenantId).toBe("team");
});
