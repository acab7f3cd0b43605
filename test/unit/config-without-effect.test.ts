/**
 * Goal: whatever is taken from vLLM's settings and changes nothing here is told, with its value; what has an effect, or asks for
 * nothing, is not.
 * Method: each setting alone, beside the engine for which it is idle and beside the one that it concerns.
 */
import { afterAll, describe, expect, test } from "vitest";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readEnvironment } from "../../src/config/environment.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";

const folder = mkdtempSync(join(tmpdir(), "mooncake-kv-config-"));
const storePath = join(folder, "store.json");
writeFileSync(
  storePath,
  JSON.stringify({
    metadata_server: "P2PHANDSHAKE",
    master_server_address: "127.0.0.1:50051",
    mode: "standalone-store",
    global_segment_size: 0,
    enable_offload: true,
  }),
);
afterAll(() => rmSync(folder, { recursive: true }));

const STORE = { kv_connector: "MooncakeStoreConnector", kv_role: "kv_both" };
type Engine = "local" | "mooncake";
const ENGINES: readonly Engine[] = ["local", "mooncake"];

interface Given {
  readonly transfer?: object;
  readonly extra?: object;
  readonly variables?: Readonly<Record<string, string>>;
}
function fieldsWarned(engine: Engine, { transfer, extra, variables }: Given): string[] {
  const config = { ...STORE, ...transfer, kv_connector_extra_config: { engine, ...extra } };
  const environment = readEnvironment({ MOONCAKE_CONFIG_PATH: storePath, ...variables });
  const { warnings } = parseTransferConfig(config, environment);
  for (const { problem, remedy } of warnings) {
    expect(problem).toContain("no effect");
    expect(remedy).toMatch(/silence/);
  }
  return warnings.map(({ field }) => field);
}

test("nothing is said of a plain configuration", () => {
  for (const engine of ENGINES) expect(fieldsWarned(engine, {})).toEqual([]);
});

describe("keys of the KV-transfer configuration", () => {
  test.each([
    ["engine_id", "e"],
    ["kv_buffer_device", "cuda"],
    ["kv_port", 14_579],
    ["kv_connector_module_path", "my.module"],
    ["enable_permute_local_kv", true],
  ])("%s", (key, value) => {
    for (const engine of ENGINES) {
      expect(fieldsWarned(engine, { transfer: { [key]: value } })).toEqual([key]);
      expect(fieldsWarned(engine, { transfer: { [key]: null } })).toEqual([]);
    }
  });
  test("a switch that is off asks for nothing", () => {
    expect(fieldsWarned("local", { transfer: { enable_permute_local_kv: false } })).toEqual([]);
  });
});

test("GPU allocation, of whatever engine", () => {
  for (const engine of ENGINES)
    expect(fieldsWarned(engine, { extra: { custom_mem_pool: "NVLINK" } })).toEqual([
      "kv_connector_extra_config.custom_mem_pool",
    ]);
});

describe("what only the pool of a master has", () => {
  test.each([
    ["MOONCAKE_PREFERRED_SEGMENT", "h:1"],
    ["MOONCAKE_REQUESTER_LOCAL_HOSTNAME", "h"],
    ["MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES", "1000000"],
  ])("%s", (name, value) => {
    expect(fieldsWarned("local", { variables: { [name]: value } })).toEqual([name]);
    expect(fieldsWarned("mooncake", { variables: { [name]: value } })).toEqual([]);
  });
  test("preferred_segment", () => {
    const extra = { preferred_segment: "h:1" };
    const field = "kv_connector_extra_config.preferred_segment";
    expect(fieldsWarned("local", { extra })).toEqual([field]);
    expect(fieldsWarned("mooncake", { extra })).toEqual([]);
  });
});

test("the port of another connector; its default asks for nothing", () => {
  const at = (port: string): Given => ({ variables: { VLLM_MOONCAKE_BOOTSTRAP_PORT: port } });
  for (const engine of ENGINES) {
    expect(fieldsWarned(engine, at("9000"))).toEqual(["VLLM_MOONCAKE_BOOTSTRAP_PORT"]);
    expect(fieldsWarned(engine, at("8998"))).toEqual([]);
  }
});

test("variables that work with either engine", () => {
  const variables = {
    VLLM_MOONCAKE_STORE_TIER_LOG: "1",
    VLLM_HOST_IP: "10.0.0.1",
    PYTHONHASHSEED: "0",
    VLLM_RPC_BASE_PATH: "/tmp",
  };
  for (const engine of ENGINES) expect(fieldsWarned(engine, { variables })).toEqual([]);
});

test("the name under which a member registers: its own variable, else this host's address", () => {
  const named = (variables: Readonly<Record<string, string>>): string | null | undefined =>
    parseTransferConfig(STORE, readEnvironment({ MOONCAKE_CONFIG_PATH: storePath, ...variables }))
      .config.mooncake?.requesterLocalHostname;
  expect(named({})).toBeNull();
  expect(named({ VLLM_HOST_IP: "10.0.0.1" })).toBe("10.0.0.1");
  const both = { VLLM_HOST_IP: "10.0.0.1", MOONCAKE_REQUESTER_LOCAL_HOSTNAME: "node-7" };
  expect(named(both)).toBe("node-7");
});
