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

  test("a store size that this build cannot serve is refused, never ignored", () => {
    const parse = (extra: object): unknown =>
      parseTransferConfig(
        {
          kv_connector: "MooncakeStoreConnector",
          kv_role: "kv_both",
          kv_connector_extra_config: { engine: "local", ...extra },
        },
        readEnvironment({}),
      );
    for (const extra of [{ store_tp_size: 4 }, { enable_store_tp_lcm: true }])
      expect(() => parse(extra)).toThrow(expect.objectContaining({ code: "UNSUPPORTED" }));
    // Switched off, as vLLM reads it: only `true` itself switches the common multiple on.
    for (const extra of [{ store_tp_size: null }, { enable_store_tp_lcm: "true" }])
      expect(() => parse(extra)).not.toThrow();
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
