/**
 * Goal: a JSON text is measured before it is parsed: depth, lists and objects, fields; settings say where they hold too much.
 * Method: texts at and just beyond each limit, with brackets and colons inside of strings, which do not count.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readEnvironment } from "../../src/config/environment.ts";
import { jsonExcess } from "../../src/config/json-text.ts";
import { parseKvEventsConfig } from "../../src/config/kv-events-config.ts";
import { readStoreFile } from "../../src/config/store-config.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";

const limits = { depthMax: 3, containersMax: 5, fieldsMax: 4 };

test.each([
  '{"a":[[1]]}',
  '{"a":"[[[[[[[[","b":"\\"{{{{:::::\\\\"}',
  "[[],[],[],[]]",
  '{"a":1,"b":2,"c":3,"d":4}',
  "",
  '"never closed \\',
  "]]]]",
])("%s keeps the limits", (text) => {
  expect(jsonExcess(text, limits)).toBe(null);
});

test.each([
  ['{"b":1,"a":[[[', "3 lists or objects inside each other", "a"],
  ['{"\\u0061":[[],[],[],{}]}', "5 lists and objects", "a"],
  ['{"a":1,"b":2,"c":3,"d":4,"e":5}', "4 fields", "e"],
  ["[[[[", "3 lists or objects inside each other", null],
])("%s goes beyond one", (text, problem, field) => {
  expect(jsonExcess(text, limits)).toEqual({ problem: `holds more than ${problem}`, field });
});

const DEEP = 200_000;
const deep = `${'{"engine":'.repeat(DEEP)}1${"}".repeat(DEEP)}`;

test("settings as text: deep ones are refused with their place", () => {
  const refused = { code: "INVALID_VALUE", field: "kv_transfer_config.engine" };
  expect(() => parseTransferConfig(deep, readEnvironment({}))).toThrow(
    expect.objectContaining(refused),
  );
  expect(() => parseKvEventsConfig(deep)).toThrow(
    expect.objectContaining({ ...refused, field: "kv_events_config.engine" }),
  );
});

test("settings as objects: deep values end in a short error or warning", () => {
  const value = JSON.parse(deep) as unknown;
  const config = (extra: object) => ({
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_both",
    ...extra,
  });
  const failing = [
    () => parseTransferConfig(config({ kv_role: value }), readEnvironment({})),
    () => parseTransferConfig(config({ engine_id: value }), readEnvironment({})),
    () =>
      parseTransferConfig(
        config({ kv_connector_extra_config: { engine: value } }),
        readEnvironment({}),
      ),
    () => parseKvEventsConfig({ endpoint: value }),
    () => parseKvEventsConfig({ hwm: value }),
  ];
  for (const each of failing) {
    expect(each).toThrow(expect.objectContaining({ name: "MooncakeKvError" }));
    expect(each).toThrow(/^.{1,1000}$/s);
  }
});

test("the store's file: deep, huge, and what is no regular file", () => {
  const folder = mkdtempSync(join(tmpdir(), "json-text-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  expect(() => readStoreFile(file("deep.json", "[".repeat(DEEP)))).toThrow("inside each other");
  expect(() => readStoreFile(file("huge.json", " ".repeat(1024 * 1024 + 1)))).toThrow("1048577");
  for (const path of ["/dev/zero", folder])
    expect(() => readStoreFile(path)).toThrow("is no regular file");
});
