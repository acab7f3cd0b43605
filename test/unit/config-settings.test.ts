/**
 * Goal: `config print` shows every setting of the connector under the name that users type, with the value that works and where
 * it came from.
 * Method: settings given in each place, through the real parsers; the lists of known settings say what "every" means.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { effectiveSettings } from "../../src/cli/config/settings.ts";
import type { EffectiveSettings } from "../../src/cli/config/settings.ts";
import { EXTRA_CONFIG_KEYS } from "../../src/config/extra-config.ts";
import { STORE_CONFIG_FIELDS } from "../../src/config/store-config.ts";

let folder: string;
let config: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "config-settings-"));
  config = join(folder, "store.json");
  const store = {
    metadata_server: "P2PHANDSHAKE",
    master_server_address: "10.0.0.1:50051",
    protocol: "tcp",
    local_buffer_size: "1.5gb",
  };
  writeFileSync(config, JSON.stringify(store));
});
afterAll(() => rmSync(folder, { recursive: true }));

function transfer(extra: object, more: object = {}): string {
  return JSON.stringify({
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_consumer",
    kv_connector_extra_config: extra,
    ...more,
  });
}

function valueOf(found: EffectiveSettings, name: string, section?: string): [unknown, string] {
  const rows = found.settings.filter(
    (setting) => setting.name === name && (section === undefined || setting.section === section),
  );
  expect(rows, name).toHaveLength(1);
  return [rows[0]?.value, rows[0]?.source ?? ""];
}

test("without anything given all values are defaults, and all settings are there", () => {
  const found = effectiveSettings(undefined, {});
  expect(new Set(found.settings.map(({ source }) => source))).toEqual(new Set(["default"]));
  const extra = found.settings.filter(({ section }) => section === "kv_connector_extra_config");
  expect(extra.map(({ name }) => name)).toEqual(EXTRA_CONFIG_KEYS);
  expect(extra.filter(({ value }) => value === undefined)).toEqual([]);
  expect(valueOf(found, "load_async")).toEqual([true, "default"]);
  expect(valueOf(found, "pool_bytes_max")).toEqual([1024 ** 3, "default"]);
  expect(valueOf(found, "VLLM_MOONCAKE_BOOTSTRAP_PORT")).toEqual([8998, "default"]);
  expect(found.settings.some(({ section }) => section === "store JSON")).toBe(false);
  expect(found.warnings.map(({ field }) => field)).toEqual(["engine"]);
});

test("each place is named: transfer config, extra config, environment, store JSON", () => {
  const given = transfer(
    { lookup_async: 1, lookup_timeout_ms: 50 },
    { kv_load_failure_policy: "fail" },
  );
  const found = effectiveSettings(given, {
    MOONCAKE_CONFIG_PATH: config,
    MOONCAKE_PREFERRED_SEGMENT: " 10.0.0.2:50053 ",
    VLLM_MOONCAKE_STORE_TIER_LOG: "1",
    PYTHONHASHSEED: "",
    VLLM_RPC_BASE_PATH: "",
  });
  expect(valueOf(found, "kv_role")).toEqual(["kv_consumer", "transfer config"]);
  expect(valueOf(found, "kv_load_failure_policy")).toEqual(["fail", "transfer config"]);
  expect(valueOf(found, "lookup_async")).toEqual([true, "extra config"]);
  expect(valueOf(found, "lookup_timeout_ms")).toEqual([50, "extra config"]);
  expect(valueOf(found, "engine")).toEqual(["mooncake", "environment"]);
  expect(valueOf(found, "preferred_segment")).toEqual(["10.0.0.2:50053", "environment"]);
  expect(valueOf(found, "VLLM_MOONCAKE_STORE_TIER_LOG")).toEqual([true, "environment"]);
  expect(valueOf(found, "PYTHONHASHSEED"), "the empty text is a seed").toEqual(["", "environment"]);
  expect(valueOf(found, "VLLM_RPC_BASE_PATH")).toEqual([null, "default"]);
  expect(valueOf(found, "local_buffer_size")).toEqual([1.5 * 1024 ** 3, "store JSON"]);
  expect(valueOf(found, "mode")).toEqual(["embedded", "default"]);
  const store = found.settings.filter(({ section }) => section === "store JSON");
  expect(store.map(({ name }) => name).toSorted()).toEqual(STORE_CONFIG_FIELDS.toSorted());
  // Warnings of all places come along: of a switch that is no boolean, and of an idle segment.
  const fields = found.warnings.map(({ field }) => field);
  expect(fields).toContain("kv_connector_extra_config.lookup_async");
  expect(fields).toContain("MOONCAKE_PREFERRED_SEGMENT");
});

test("a setting in the extra config wins over the environment; null is a value where vLLM takes it for one", () => {
  const given = transfer({ engine: "local", preferred_segment: "a:1", cache_prefix: null });
  const found = effectiveSettings(given, {
    MOONCAKE_CONFIG_PATH: config,
    MOONCAKE_PREFERRED_SEGMENT: "b:2",
  });
  expect(valueOf(found, "engine")).toEqual(["local", "extra config"]);
  expect(valueOf(found, "preferred_segment")).toEqual(["a:1", "extra config"]);
  expect(valueOf(found, "cache_prefix")).toEqual(["None", "extra config"]);
  const nothing = effectiveSettings(transfer({ engine: null, preferred_segment: null }), {
    MOONCAKE_CONFIG_PATH: config,
  });
  expect(valueOf(nothing, "engine")).toEqual(["mooncake", "environment"]);
  expect(valueOf(nothing, "preferred_segment")).toEqual([null, "default"]);
});

test("settings that do not work have no effective values: the parser's own error comes out", () => {
  expect(() => effectiveSettings("{", {})).toThrow("kv_transfer_config");
  expect(() => effectiveSettings(transfer({ lookup_timeout_ms: 0 }), {})).toThrow(
    "lookup_timeout_ms",
  );
  const gone = { MOONCAKE_CONFIG_PATH: join(folder, "none.json") };
  expect(() => effectiveSettings(undefined, gone)).toThrow("MOONCAKE_CONFIG_PATH");
});
