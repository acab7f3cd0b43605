/**
 * Goal: `mooncake-kv config print` writes a table for people or one JSON object for programs, and explains what is wrong.
 * Method: the compiled command line as a child process.
 */
import { expect, test } from "vitest";
import { startCli } from "./support/child.ts";

const SETTINGS = JSON.stringify({
  kv_connector: "MooncakeStoreConnector",
  kv_role: "kv_both",
  kv_connector_extra_config: { engine: "local", cache_prefix: "team", load_asinc: false },
});

test("for people: a table of each place, and the warnings", async () => {
  const child = startCli(["config", "print", "--kv-transfer-config", SETTINGS]);
  expect(await child.exit).toEqual({ code: 0, signal: null });
  expect(child.output()).toMatch(/^ {2}cache_prefix +"team" +extra config$/m);
  expect(child.output()).toMatch(/^ {2}layout +"LBNHC" +default: it is vLLM's where/m);
  expect(child.output()).toMatch(/^ {2}MOONCAKE_CONFIG_PATH +- +default$/m);
  expect(child.output()).toContain("warning: kv_connector_extra_config.load_asinc");
  expect(child.output()).toContain('Did you mean "load_async"?');
});

test("for programs: one JSON object", async () => {
  const arguments_ = ["config", "print", "--json", "--kv-transfer-config", SETTINGS];
  const child = startCli(arguments_, { VLLM_KV_CACHE_LAYOUT: "HND" });
  expect(await child.exit).toEqual({ code: 0, signal: null });
  const { settings, warnings } = JSON.parse(child.output()) as Record<string, unknown[]>;
  expect(settings).toContainEqual({
    section: "kv_connector_extra_config",
    name: "cache_prefix",
    value: "team",
    source: "extra config",
  });
  expect(settings).toContainEqual({
    section: "KV cache",
    name: "layout",
    value: "LBHNC",
    source: "environment",
    reason: "VLLM_KV_CACHE_LAYOUT asks for it",
  });
  expect(warnings).toHaveLength(1);
});

test("what does not work is explained, with exit code 1 and nothing on standard output", async () => {
  const child = startCli(["config", "print", "--kv-transfer-config", '{"kv_connector": "Other"}']);
  expect(await child.exit).toEqual({ code: 1, signal: null });
  expect(child.output()).toBe("");
  expect(child.errors()).toContain('kv_connector: is not a known connector (got "Other")');
});
