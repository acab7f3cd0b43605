/**
 * Goal: `engine_process` chooses where the engine runs, with the same engine behind it, and what does not go together is refused with
 * its remedy.
 * Method: configurations as users write them, and the options that reach the addon.
 */
import { expect, test } from "vitest";
import { readEnvironment } from "../../src/config/environment.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";
import { engineProgram } from "../../src/native/load.ts";
import type { EngineOptions } from "../../src/native/binding.ts";
import { engineHasLog, openEngine } from "../../src/store/open-engine.ts";

function configOf(extra: object) {
  const json = {
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_both",
    kv_connector_extra_config: { engine: "local", pool_name: "p", pool_io_threads: 3, ...extra },
  };
  return parseTransferConfig(json, readEnvironment({})).config;
}

/** What the addon is asked to open; it opens nothing here. */
function optionsOf(extra: object): EngineOptions {
  const asked: EngineOptions[] = [];
  const native = {
    engineOpen: (options: EngineOptions): number => asked.push(options),
  };
  openEngine(native, configOf(extra));
  const [options] = asked;
  if (options === undefined) throw new Error("nothing was opened");
  return options;
}

test("the engine is in this process unless a child is asked for", () => {
  expect(configOf({}).engineProcess).toBe("in_process");
  expect(configOf({ engine_process: null }).engineProcess).toBe("in_process");
  const inProcess = optionsOf({ engine_process: "in_process" });
  expect(inProcess).toMatchObject({ kind: "local", poolName: "p", ioThreads: 3 });
  expect(engineHasLog(configOf({}))).toBe(false);

  const child = optionsOf({ engine_process: "child" });
  expect(child).toEqual({
    kind: "child",
    executable: engineProgram(),
    arguments: [],
    inner: inProcess,
    existsThreads: 1,
    getThreads: 3,
    putThreads: 3,
  });
  expect(engineHasLog(configOf({ engine_process: "child" }))).toBe(true);
});

test.each(["Child", "", true, 1])("%j is no process for an engine", (value) => {
  expect(() => configOf({ engine_process: value })).toThrow(
    expect.objectContaining({
      field: "kv_connector_extra_config.engine_process",
      value,
      remedy: expect.stringContaining('"child"'),
    }),
  );
});

test("a program that was not built is named with the command that builds it", () => {
  expect(() => engineProgram(["/nowhere/mooncake-kv-engine"])).toThrow(
    expect.objectContaining({
      code: "NATIVE_MISSING",
      value: "/nowhere/mooncake-kv-engine",
      remedy: expect.stringContaining("npm run build:native"),
    }),
  );
});
