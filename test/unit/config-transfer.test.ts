/**
 * Goal: vLLM's --kv-transfer-config means here what it means there; what this build lacks or cannot mean is refused with the
 * field, the value and the remedy; likely mistakes are warned of.
 * Method: configurations as users paste them, given as objects and as text.
 */
import { afterAll, describe, expect, it } from "vitest";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ConnectorConfig } from "../../src/config/connector-config.ts";
import { readEnvironment } from "../../src/config/environment.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";
import { formatWarning } from "../../src/config/warnings.ts";

const BARE = readEnvironment({});
const WITH_STORE = readEnvironment({ MOONCAKE_CONFIG_PATH: "/etc/mooncake.json" });

const folder = mkdtempSync(join(tmpdir(), "mooncake-kv-config-"));
afterAll(() => rmSync(folder, { recursive: true }));
let files = 0;

/** A store's JSON with these fields over the guide's. */
function storeFile(fields: object): string {
  const path = join(folder, `store-${files++}.json`);
  const plain = {
    metadata_server: "P2PHANDSHAKE",
    master_server_address: "127.0.0.1:50051",
    protocol: "tcp",
  };
  writeFileSync(path, JSON.stringify({ ...plain, ...fields }));
  return path;
}

function withExtra(extra: Record<string, unknown>, role = "kv_both"): Record<string, unknown> {
  return {
    kv_connector: "MooncakeStoreConnector",
    kv_role: role,
    kv_connector_extra_config: { engine: "local", ...extra },
  };
}
function configOf(extra: Record<string, unknown>, role?: string): ConnectorConfig {
  return parseTransferConfig(withExtra(extra, role), BARE).config;
}
function warningsOf(extra: Record<string, unknown>): string[] {
  return parseTransferConfig(withExtra(extra), BARE).warnings.map(formatWarning);
}

describe("engine selection", () => {
  it("is local with a warning when nothing is configured", () => {
    const { config, warnings } = parseTransferConfig(undefined, BARE);
    expect(config.engine).toBe("local");
    expect(config.role).toBe("kv_both");
    expect(warnings.map(formatWarning)).toEqual([
      expect.stringContaining("private to this process"),
    ]);
  });

  it("is local without a warning when asked for, even beside a store configuration", () => {
    expect(parseTransferConfig(withExtra({}), WITH_STORE)).toMatchObject({
      config: { engine: "local" },
      warnings: [],
    });
  });

  it("is an error for a store connector without a store configuration", () => {
    const given = { kv_connector: "MooncakeStoreConnector", kv_role: "kv_both" };
    expect(() => parseTransferConfig(given, BARE)).toThrow(
      expect.objectContaining({ code: "MISSING", field: "MOONCAKE_CONFIG_PATH" }),
    );
  });

  it("joins the pool of the store's file, asked for or implied", () => {
    const path = storeFile({ mode: "standalone-store", global_segment_size: 0 });
    const environment = readEnvironment({
      MOONCAKE_CONFIG_PATH: path,
      MOONCAKE_PREFERRED_SEGMENT: "10.0.0.7:50053",
      MOONCAKE_REQUESTER_LOCAL_HOSTNAME: "10.0.0.8",
      MOONCAKE_PYTHON: "/opt/python3",
      PATH: "/usr/bin",
    });
    const given = { kv_connector: "MooncakeStoreConnector", kv_role: "kv_both" };
    for (const config of [withExtra({ engine: "mooncake" }), given, undefined])
      expect(parseTransferConfig(config, environment).config).toMatchObject({
        engine: "mooncake",
        preferredSegment: "10.0.0.7:50053",
        mooncake: {
          store: { masterServerAddress: "127.0.0.1:50051", globalSegmentBytes: 0 },
          requesterLocalHostname: "10.0.0.8",
          python: "/opt/python3",
          searchPath: "/usr/bin",
        },
      });
  });

  it("reads as much at a time as the owner's staging buffer takes, with offload only", () => {
    const staging = (file: object): unknown =>
      parseTransferConfig(undefined, readEnvironment({ MOONCAKE_CONFIG_PATH: storeFile(file) }))
        .config.staging;
    expect(staging({})).toBeNull();
    expect(staging({ enable_offload: true })).toEqual({
      bufferBytes: 1280 * 1024 * 1024,
      usableRatio: 0.9,
      readsMax: 1,
    });
  });

  it("refuses the mooncake engine without a store's file, and engines that there are not", () => {
    const missing = expect.objectContaining({ code: "MISSING", field: "MOONCAKE_CONFIG_PATH" });
    expect(() => parseTransferConfig(withExtra({ engine: "mooncake" }), BARE)).toThrow(missing);
    expect(() => parseTransferConfig(undefined, WITH_STORE)).toThrow(missing);
    expect(() => parseTransferConfig(withExtra({ engine: "moon" }), BARE)).toThrow(
      expect.objectContaining({ code: "INVALID_VALUE", value: "moon" }),
    );
  });
});

describe("a process without a pool", () => {
  it("needs no engine and no store configuration, and is warned of neither", () => {
    const given = { kv_connector: "MooncakeStoreConnector", kv_role: "kv_both" };
    for (const environment of [BARE, WITH_STORE])
      for (const config of [undefined, given])
        expect(parseTransferConfig(config, environment, false)).toMatchObject({
          config: { engine: "local" },
          warnings: [],
        });
  });

  it("has its settings looked at all the same", () => {
    expect(() => parseTransferConfig(withExtra({ engine: "moon" }), BARE, false)).toThrow(
      expect.objectContaining({ field: "kv_connector_extra_config.engine" }),
    );
    expect(() => parseTransferConfig(withExtra({ load_timeout_ms: 0 }), BARE, false)).toThrow(
      expect.objectContaining({ field: "kv_connector_extra_config.load_timeout_ms" }),
    );
  });
});

it("names a wrong setting rather than the engine that is missing", () => {
  const given = withExtra({ engine: undefined, save_timeout_ms: 0 });
  expect(() => parseTransferConfig(given, BARE)).toThrow(
    expect.objectContaining({ field: "kv_connector_extra_config.save_timeout_ms" }),
  );
  const policy = { ...withExtra({ engine: undefined }), kv_load_failure_policy: "retry" };
  expect(() => parseTransferConfig(policy, BARE)).toThrow(
    expect.objectContaining({ field: "kv_load_failure_policy" }),
  );
});

describe("settings", () => {
  it("of checksums are one for each engine; the other one's is told", () => {
    expect(configOf({ pool_verify: "require" }).poolVerify).toBe("require");
    expect(warningsOf({ pool_verify: "require" })).toEqual([
      expect.stringContaining("kv_connector_extra_config.pool_verify"),
    ]);
    expect(warningsOf({ pool_verify: "off" })).toEqual([]);
    for (const value of ["on", true, 1])
      expect(() => configOf({ pool_verify: value })).toThrow("when_present");
  });
  it("have vLLM's defaults and ours", () => {
    expect(configOf({})).toEqual({
      engine: "local",
      engineProcess: "in_process",
      role: "kv_both",
      engineId: null,
      loadFailurePolicy: "recompute",
      loadAsync: true,
      lookupAsync: false,
      enableLookup: true,
      canSave: true,
      saveDecodeCache: false,
      capacityOnly: false,
      enableCrossLayersBlocks: false,
      enableGroupSemantics: false,
      lookupRpcPort: "0",
      lookupRpcRole: null,
      lookupRpcFolder: null,
      cachePrefix: "",
      mooncake: null,
      preferredSegment: null,
      lookupTimeoutMs: 1000,
      loadTimeoutMs: 30_000,
      saveTimeoutMs: 60_000,
      shutdownTimeoutMs: 10_000,
      engineStartTimeoutMs: 10_000,
      minLoadTokens: 0,
      poolVerify: "off",
      staging: null,
      storeTierLog: false,
      storeTp: null,
      local: { poolName: "default", bytesMax: 1024 ** 3, ioThreads: 2, verifyChecksums: true },
    });
  });

  it("are taken from JSON text too, and the result is frozen plain data", () => {
    const text = JSON.stringify({
      ...withExtra({ pool_bytes_max: "2gb", lookup_async: true }),
      engine_id: "e1",
      kv_load_failure_policy: "fail",
    });
    const { config } = parseTransferConfig(text, BARE);
    expect(config).toMatchObject({ engineId: "e1", loadFailurePolicy: "fail", lookupAsync: true });
    expect(config.local.bytesMax).toBe(2 * 1024 ** 3);
    expect(Object.isFrozen(config) && Object.isFrozen(config.local)).toBe(true);
    expect(structuredClone(config)).toEqual(config);
  });

  it("derive who saves from the role", () => {
    expect(configOf({}, "kv_producer").canSave).toBe(true);
    expect(configOf({}, "kv_consumer").canSave).toBe(false);
    expect(configOf({ save_decode_cache: true }, "kv_consumer").canSave).toBe(true);
    expect(configOf({ enable_lookup: false }, "kv_consumer").capacityOnly).toBe(true);
    expect(configOf({ enable_lookup: false }, "kv_both").capacityOnly).toBe(false);
  });

  it("follow Python's truth, and warn of texts", () => {
    expect(configOf({ load_async: "false" }).loadAsync).toBe(true);
    expect(warningsOf({ load_async: "false" })).toEqual([
      expect.stringMatching(/load_async.*counts as true.*"false".*Write false/),
    ]);
    expect(configOf({ load_async: 0 }).loadAsync).toBe(false);
    expect(configOf({ load_async: null }).loadAsync).toBe(false);
    expect(configOf({ lookup_async: [] }).lookupAsync).toBe(false);
    expect(configOf({ enable_cross_layers_blocks: "True" }).enableCrossLayersBlocks).toBe(true);
    expect(configOf({ enable_cross_layers_blocks: 1 }).enableCrossLayersBlocks).toBe(false);
  });

  it("turn cache_prefix and lookup_rpc_port into text as Python's str() does", () => {
    expect(configOf({ cache_prefix: "a@b" }).cachePrefix).toBe("a@b");
    expect(configOf({ cache_prefix: null }).cachePrefix).toBe("None");
    expect(configOf({ cache_prefix: true }).cachePrefix).toBe("True");
    expect(configOf({ cache_prefix: 7 }).cachePrefix).toBe("7");
    expect(warningsOf({ cache_prefix: null })).toEqual([expect.stringContaining('"None@"')]);
    expect(() => configOf({ cache_prefix: 1.5 })).toThrow(
      expect.objectContaining({ code: "INVALID_TYPE" }),
    );
    expect(() => configOf({ cache_prefix: "\ud83d" })).toThrow(
      expect.objectContaining({ code: "INVALID_VALUE" }),
    );
    expect(configOf({ lookup_rpc_port: "abc" }).lookupRpcPort).toBe("abc");
  });

  it("keep what asks for a store that is cut finer as it is written", () => {
    expect(configOf({}).storeTp).toBe(null);
    expect(configOf({ enable_store_tp_lcm: "true", store_tp_size: null }).storeTp).toBe(null);
    expect(configOf({ store_tp_size: "4" }).storeTp).toEqual({ storeTpSize: "4" });
    const lcm = { enable_store_tp_lcm: true, prefill_tp_sizes: [2, 4] };
    expect(configOf(lcm).storeTp).toEqual({ enableStoreTpLcm: true, prefillTpSizes: [2, 4] });
    expect(warningsOf(lcm)).toEqual([]);
  });

  it("open a lookup socket where a port or a role is given: a port alone answers, as in vLLM", () => {
    const roleOf = (extra: object): unknown => configOf({ ...extra }).lookupRpcRole;
    expect(roleOf({ lookup_rpc_port: 7 })).toBe("server");
    expect(roleOf({ lookup_rpc_port: 7, lookup_rpc_role: "client" })).toBe("client");
    expect(roleOf({ lookup_rpc_role: "server" })).toBe("server");
    expect(configOf({ lookup_rpc_port: 7 }).lookupRpcPort).toBe("7");
    expect(warningsOf({ lookup_rpc_port: 7, lookup_rpc_role: "client" })).toEqual([]);
    expect(() => configOf({ lookup_rpc_role: "both" })).toThrow(
      /lookup_rpc_role: must be "server" or "client" \(got "both"\)/,
    );
    const environment = readEnvironment({ VLLM_RPC_BASE_PATH: "/run/rpc" });
    const { config } = parseTransferConfig(withExtra({ lookup_rpc_port: 1 }), environment);
    expect(config.lookupRpcFolder).toBe("/run/rpc");
  });

  it("warn of unknown keys with the nearest known one", () => {
    expect(warningsOf({ lookupTimeoutMs: 5 })).toEqual([
      expect.stringContaining('Did you mean "lookup_timeout_ms"?'),
    ]);
    expect(warningsOf({ load_asynch: true })).toEqual([
      expect.stringContaining('Did you mean "load_async"?'),
    ]);
    expect(warningsOf({ qqqqqq: 1 })).toEqual([expect.stringContaining("known are load_async")]);
  });

  it("take enable_group_semantics as vLLM reads it: as text, spaces aside", () => {
    const isOn = (extra: Record<string, unknown>): boolean =>
      parseTransferConfig(withExtra(extra), BARE).config.enableGroupSemantics;
    expect(isOn({})).toBe(false);
    for (const value of [true, "true", " True\n", "TRUE"])
      expect(isOn({ enable_group_semantics: value }), JSON.stringify(value)).toBe(true);
    for (const value of [false, null, "False"]) {
      expect(isOn({ enable_group_semantics: value })).toBe(false);
      expect(warningsOf({ enable_group_semantics: value })).toEqual([]);
    }
    for (const value of [1, "1", "yes", {}]) {
      expect(isOn({ enable_group_semantics: value })).toBe(false);
      expect(warningsOf({ enable_group_semantics: value })).toEqual([
        expect.stringMatching(/enable_group_semantics.*counts as false/),
      ]);
    }
  });

  it("warn of what is understood and changes nothing yet", () => {
    for (const [key, value] of [
      ["enable_group_semantics", true],
      ["preferred_segment", "h:1"],
    ] as const)
      expect(warningsOf({ [key]: value })).toEqual([
        expect.stringMatching(new RegExp(`${key}.*has no effect`)),
      ]);
    expect(warningsOf({ enable_cross_layers_blocks: false, preferred_segment: null })).toEqual([]);
    for (const value of ["False", "True", true])
      expect(warningsOf({ enable_cross_layers_blocks: value })).toEqual([]);
    for (const value of [1, "yes"])
      expect(warningsOf({ enable_cross_layers_blocks: value })).toEqual([
        expect.stringMatching(/enable_cross_layers_blocks.*counts as false/),
      ]);
    const environment = readEnvironment({ MOONCAKE_PREFERRED_SEGMENT: "h:1" });
    const named = { ...withExtra({}), engine_id: "e1" };
    expect(parseTransferConfig(named, environment).warnings.map((one) => one.field)).toEqual([
      "MOONCAKE_PREFERRED_SEGMENT",
      "engine_id",
    ]);
    const idle = withExtra({ enable_lookup: false }, "kv_consumer");
    expect(parseTransferConfig(idle, BARE).warnings.map(formatWarning)).toEqual([
      expect.stringMatching(/kv_role.*neither loads nor saves/),
    ]);
  });

  it("take the preferred segment from the environment unless given", () => {
    const environment = readEnvironment({ MOONCAKE_PREFERRED_SEGMENT: " 127.0.0.1:50053 " });
    expect(parseTransferConfig(withExtra({}), environment).config.preferredSegment).toBe(
      "127.0.0.1:50053",
    );
    const given = withExtra({ preferred_segment: "h:1" });
    expect(parseTransferConfig(given, environment).config.preferredSegment).toBe("h:1");
  });
});

describe("refusals name field, code and remedy", () => {
  it.each<[string, unknown, string, string]>([
    ["no JSON", "{", "kv_transfer_config", "INVALID_VALUE"],
    ["a list", [], "kv_transfer_config", "INVALID_TYPE"],
    ["no connector", { kv_role: "kv_both" }, "kv_connector", "MISSING"],
    [
      "the direct connector",
      { kv_connector: "MooncakeConnector", kv_role: "kv_both" },
      "kv_connector",
      "UNSUPPORTED",
    ],
    [
      "another connector",
      { kv_connector: "Nixl", kv_role: "kv_both" },
      "kv_connector",
      "INVALID_VALUE",
    ],
    ["no role", { kv_connector: "MooncakeStoreConnector" }, "kv_role", "MISSING"],
    ["a wrong role", withExtra({}, "kv_all"), "kv_role", "INVALID_VALUE"],
    [
      "a wrong policy",
      { ...withExtra({}), kv_load_failure_policy: "retry" },
      "kv_load_failure_policy",
      "INVALID_VALUE",
    ],
    ["an unknown key", { ...withExtra({}), kv_rolle: 1 }, "kv_rolle", "INVALID_VALUE"],
    [
      "a timeout of 0",
      withExtra({ lookup_timeout_ms: 0 }),
      "kv_connector_extra_config.lookup_timeout_ms",
      "INVALID_VALUE",
    ],
    [
      "a timeout in quotes",
      withExtra({ load_timeout_ms: "5" }),
      "kv_connector_extra_config.load_timeout_ms",
      "INVALID_VALUE",
    ],
    [
      "a list as timeout",
      withExtra({ save_timeout_ms: [] }),
      "kv_connector_extra_config.save_timeout_ms",
      "INVALID_TYPE",
    ],
    [
      "a pool of no bytes",
      withExtra({ pool_bytes_max: 0 }),
      "kv_connector_extra_config.pool_bytes_max",
      "INVALID_VALUE",
    ],
    [
      "a list of settings",
      { ...withExtra({}), kv_connector_extra_config: [] },
      "kv_connector_extra_config",
      "INVALID_TYPE",
    ],
  ])("%s", (_name, given, field, code) => {
    expect(() => parseTransferConfig(given, BARE)).toThrow(
      expect.objectContaining({ field, code, remedy: expect.stringMatching(/\w{3}/) }),
    );
  });
});
