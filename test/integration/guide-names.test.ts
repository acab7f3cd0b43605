/**
 * Goal: no setting, default, variable, option, outcome or metric is missing in the guide or stands only there, and every error
 * and warning that it lists is the one that comes.
 * Method: the guide's tables are compared with the lists, parsers and sources that define the names, and with the wheel where
 * the name is the wheel's own.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readEnvironment } from "../../src/config/environment.ts";
import { EXTRA_CONFIG_KEYS } from "../../src/config/extra-config.ts";
import { parseJsonRecord } from "../../src/config/python-value.ts";
import {
  checkStoreConfig,
  loadStoreConfig,
  parseStoreConfig,
  STORE_CONFIG_FIELDS,
} from "../../src/config/store-config.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";
import { OUTCOME_LABELS } from "../../src/trace/lanes.ts";
import { COUNTER_FAMILIES, GAUGE_FAMILIES, HISTOGRAM_FAMILIES } from "../../src/trace/families.ts";
import { packageRoot } from "../../src/worker-entry.ts";
import { GUIDES, readGuide, sectionOf } from "./support/guide.ts";
import { testWheel } from "./support/mooncake-wheel.ts";

const guide = readGuide(GUIDES[0]);
const blocks = guide.flatMap((section) => section.blocks);
const codeWords = guide.flatMap((section) => section.codeWords);
const wheel = await testWheel();

test("store fields: all, and their defaults", () => {
  const rows = rowsOf(4);
  expect(keysOf(rows).toSorted()).toEqual(STORE_CONFIG_FIELDS.toSorted());
  for (const [key, value] of defaultsOf(rows))
    expect(parseStoreConfig({ [key]: value }), key).toEqual(parseStoreConfig({}));
});

/** One for each row of the table of errors, in its order. */
const ERRORS: readonly (() => unknown)[] = [
  () => loadStoreConfig(null, null),
  () => parseJsonRecord("{,}", "store.json"),
  () => parseStoreConfig({ mode: "shared" }),
  () => parseStoreConfig({ local_buffer_size: 0 }),
  () => parseStoreConfig({ global_segment_size: 0 }),
  () => parseStoreConfig({ mode: "standalone-store" }),
  () => checked({ protocol: "udp" }),
  () => checked({ master_server_address: "" }),
  () => parseStoreConfig({ local_buffer_size: "4 pb" }),
  () => parseStoreConfig({ protocol: 7 }),
];

test("errors of the store's file: each with its code", () => {
  const codes = rowsOf(4, 1).map(([, code = ""]) => code.replaceAll("`", ""));
  expect(codes).toHaveLength(ERRORS.length);
  for (const [index, run] of ERRORS.entries())
    expect(run, `row ${index + 1}`).toThrow(
      expect.objectContaining({ code: codes[index] }) as Error,
    );
});

/** One for each row of the table of warnings, in its order. */
const WARNINGS: readonly [file: object, segment: string | null][] = [
  [{ enable_offload: true }, null],
  [{}, "127.0.0.1:50053"],
  [{ mode: "standalone-store", global_segment_size: 0 }, "127.0.0.1:50053"],
  [{ global_segment_sise: "4gb" }, null],
  [{ mode: "standalone-store", global_segment_size: 0, enable_offload: "false" }, null],
  [{ metadata_server: "" }, null],
];

test("warnings of the store's file: each comes, and alone", () => {
  expect(rowsOf(4, 2)).toHaveLength(WARNINGS.length);
  for (const [file, segment] of WARNINGS)
    expect(checked(file, segment), JSON.stringify(file)).toHaveLength(1);
  expect(checked({})).toEqual([]);
});

test("extra settings: all, and their defaults", () => {
  const rows = sectionOf(guide, 10).tables.flatMap((table) => table.rows);
  expect(keysOf(rows).toSorted()).toEqual(EXTRA_CONFIG_KEYS.toSorted());
  const parse = (extra: object): unknown =>
    parseTransferConfig(
      {
        kv_connector: "MooncakeStoreConnector",
        kv_role: "kv_both",
        kv_connector_extra_config: { engine: "local", ...extra },
      },
      readEnvironment({}),
    );
  for (const [key, value] of defaultsOf(rows))
    expect(parse({ [key]: value }), key).toEqual(parse({}));
});

test("the block with extra settings differs from the defaults in each", () => {
  const all = blocks.find(({ text }) => text.includes('"shutdown_timeout_ms"'))?.text ?? "";
  const { kv_connector_extra_config: extra } = JSON.parse(all) as Record<string, object>;
  const table = sectionOf(guide, 10).tables.flatMap(({ rows }) => rows);
  for (const [key, value] of Object.entries(extra ?? {}))
    expect(table.find(([name]) => name === `\`${key}\``)?.[1], key).not.toBe(
      `\`${JSON.stringify(value)}\``,
    );
});

test("environment variables: all that the code reads, and their defaults", () => {
  const rows = rowsOf(8);
  const elsewhere = [...keysOf(rowsOf(17)), ...keysOf(rowsOf(7, 1)), ...codeWords];
  const known = variablesOf("src", ".ts").filter((name) => !INTERNAL.includes(name));
  for (const name of known) expect([...keysOf(rows), ...elsewhere], name).toContain(name);
  for (const name of variablesOf("native/engines/mooncake", ".cc"))
    expect(elsewhere, name).toContain(name);
  for (const name of keysOf(rows)) expect(known).toContain(name);
  for (const [key, value] of defaultsOf(rows))
    expect(readEnvironment({ [key]: String(value) }), key).toEqual(readEnvironment({}));
});

test("the wheel's variables that the engine sets, and their values", () => {
  const source = readFileSync(
    join(packageRoot(), "native/engines/mooncake/open_mooncake.cc"),
    "utf8",
  );
  const set = [...source.matchAll(/setDefault\("(\w+)", ([^;]+)\);/g)];
  expect(new Set(set.map(([, name]) => name))).toEqual(new Set(keysOf(rowsOf(17))));
  for (const [, name = "", value = ""] of set) {
    const row = rowsOf(17).find(([cell]) => cell === `\`${name}\``) ?? [];
    for (const [, number] of value.matchAll(/"(\d+)"/g))
      expect(row.join(" "), name).toContain(number);
  }
});

test("variables elsewhere in the guide are the code's or the wheel's", () => {
  const ours = new Set(variablesOf("src", ".ts"));
  const inBlocks = blocks.flatMap(({ text }) => [...text.matchAll(VARIABLE)].map(([name]) => name));
  const named = codeWords.filter((word) => ONLY_VARIABLE.test(word));
  const theirs = [...new Set([...inBlocks, ...named])].filter((name) => !ours.has(name));
  expect(theirs.length).toBeGreaterThan(3);
  for (const name of theirs) expect(isInWheel(name), name).toBe(true);
});

test("options are the command line's or the wheel's", () => {
  const sources = filesOf("src/cli", ".ts").join("\n");
  const options = codeWords.flatMap((word) => word.match(/(?<=^| )--[a-z][a-z_-]*/g) ?? []);
  expect(options.length).toBeGreaterThan(8);
  for (const option of options)
    expect(new RegExp(`"${option}[ "]`).test(sources) || isInWheel(option.slice(2)), option).toBe(
      true,
    );
});

test("outcomes: all", () => {
  const { tables } = sectionOf(guide, 14);
  const rows = tables.find((table) => table.rows[0]?.[0] === "`NONE`")?.rows ?? [];
  expect(keysOf(rows)).toEqual([...OUTCOME_LABELS]);
});

test("metrics are those of families", () => {
  const families = [COUNTER_FAMILIES, GAUGE_FAMILIES, HISTOGRAM_FAMILIES]
    .flatMap((group) => Object.values(group))
    .map(({ name }) => name);
  const named = codeWords.filter((word) => /^(mooncake_kv|vllm:)\w+$/.test(word));
  expect(named.length).toBeGreaterThan(4);
  for (const name of named) expect(families).toContain(name);
});

function checked(file: object, segment: string | null = null): unknown[] {
  const whole = {
    master_server_address: "127.0.0.1:50051",
    metadata_server: "P2PHANDSHAKE",
    ...file,
  };
  return checkStoreConfig(whole, parseStoreConfig(whole), segment);
}

/** Set by a process for its own child. */
const INTERNAL: readonly string[] = ["MOONCAKE_KV_POOL_DETACHED"];
const VARIABLE = /\b(?:MOONCAKE|VLLM|MC|XDG)_[A-Z0-9_]*[A-Z0-9]\b|\bPYTHONHASHSEED\b/g;
const ONLY_VARIABLE = /^(?:MOONCAKE|VLLM|MC|XDG)_[A-Z0-9_]+$/;

/** Names of variables that stand as texts in these sources; of ours PATH too, which stands for more than a variable. */
function variablesOf(under: string, ending: string): string[] {
  const names = new Set<string>(under === "src" ? ["PATH"] : []);
  for (const text of filesOf(under, ending))
    for (const [, name = ""] of text.matchAll(
      /(?:"|\{ )((?:MOONCAKE|VLLM|MC|XDG)_[A-Z0-9_]+|PYTHONHASHSEED)(?:"|: )/g,
    ))
      names.add(name);
  return [...names].toSorted();
}

function filesOf(under: string, ending: string): string[] {
  const names = readdirSync(join(packageRoot(), under), { recursive: true, encoding: "utf8" });
  return names
    .filter((name) => name.endsWith(ending))
    .map((name) => readFileSync(join(packageRoot(), under, name), "utf8"));
}

let libraries: readonly Buffer[] | undefined;
function isInWheel(name: string): boolean {
  libraries ??= readdirSync(wheel.mooncakeFolder, { withFileTypes: true })
    .filter((entry) => entry.isFile() && !/\.(py|pyi|txt)$/.test(entry.name))
    .map((entry) => readFileSync(join(wheel.mooncakeFolder, entry.name)));
  return libraries.some((library) => library.includes(name));
}

function rowsOf(section: number, table = 0): readonly (readonly string[])[] {
  const rows = sectionOf(guide, section).tables[table]?.rows ?? [];
  expect(rows.length, `section ${section}, table ${table + 1}`).toBeGreaterThan(0);
  return rows;
}

function keysOf(rows: readonly (readonly string[])[]): string[] {
  return rows.map(([cell = ""]) => cell.replaceAll("`", ""));
}

/** Keys and values of the rows whose second cell is a JSON value. */
function defaultsOf(rows: readonly (readonly string[])[]): [key: string, value: unknown][] {
  const given = rows.filter(([, value = ""]) => /^`[^`]+`$/.test(value));
  expect(given.length).toBeGreaterThan(0);
  return given.map(([key = "", value = ""]) => [
    key.replaceAll("`", ""),
    JSON.parse(value.slice(1, -1)) as unknown,
  ]);
}
