/**
 * Goal: the guide says what the code does, in both languages alike: its JSON is accepted without a warning, its defaults are the
 * defaults, and no setting, variable, outcome or metric is missing in it or only in it.
 * Method: both files are read into sections, blocks and tables; blocks go through the parsers of the connector, names are compared
 * with the lists and the sources that define them.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readEnvironment } from "../../src/config/environment.ts";
import { EXTRA_CONFIG_KEYS } from "../../src/config/extra-config.ts";
import { parseKvEventsConfig } from "../../src/config/kv-events-config.ts";
import {
  loadStoreConfig,
  parseStoreConfig,
  STORE_CONFIG_FIELDS,
} from "../../src/config/store-config.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";
import { OUTCOME_LABELS } from "../../src/trace/lanes.ts";
import { COUNTER_FAMILIES, GAUGE_FAMILIES, HISTOGRAM_FAMILIES } from "../../src/trace/families.ts";
import { packageRoot } from "../../src/worker-entry.ts";
import { GUIDES, readGuide, readMarkdown } from "./support/guide.ts";
import type { GuideBlock, GuideSection } from "./support/guide.ts";
import { testWheel } from "./support/mooncake-wheel.ts";

const [english, chinese] = [readGuide(GUIDES[0]), readGuide(GUIDES[1])];
const blocks = english.flatMap((section) => section.blocks);
const wheel = await testWheel();

let folder: string;
let storePath: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "guide-"));
  storePath = writeJson("store.json", blocks.find((block) => isFile(block, "store.json"))?.text);
});
afterAll(() => rmSync(folder, { recursive: true }));

describe("both languages", () => {
  test("have the same sections, headings and tables", () => {
    expect(chinese.map(shape)).toEqual(english.map(shape));
  });

  test("have the same blocks, byte for byte, with the same markers", () => {
    const comparable = ({ language, text, action }: GuideBlock): unknown[] => [
      language,
      text,
      action,
    ];
    for (const [index, section] of english.entries())
      expect(chinese[index]?.blocks.map(comparable), `section ${section.number}`).toEqual(
        section.blocks.map(comparable),
      );
  });

  test("name the same things in each section", () => {
    for (const [index, section] of english.entries())
      expect(chinese[index]?.codeWords, `section ${section.number}`).toEqual(section.codeWords);
  });

  test("name the same things in each cell of each table", () => {
    const cells = (section: GuideSection): string[][][] =>
      section.tables.flatMap(({ rows }) => rows.map((row) => row.map(codeOf)));
    for (const [index, section] of english.entries())
      expect(chinese.slice(index, index + 1).flatMap(cells), `section ${section.number}`).toEqual(
        cells(section),
      );
  });

  test("have links that lead somewhere", () => {
    for (const path of GUIDES) {
      const text = readFileSync(join(packageRoot(), path), "utf8");
      const targets = [...text.matchAll(/\]\(([^)]+)\)/g)].map((match) => match[1] ?? "");
      expect(targets.length).toBeGreaterThan(8);
      for (const target of targets.filter((each) => !each.startsWith("https://"))) {
        const [file = "", anchor] = target.split("#");
        const at = file === "" ? path : join(dirname(path), file);
        expect(existsSync(join(packageRoot(), at)), `${path}: ${target}`).toBe(true);
        if (anchor !== undefined) expect(anchors(at), `${path}: ${target}`).toContain(anchor);
      }
    }
    expect(chinese.map(({ links }) => links.length)).toEqual(
      english.map(({ links }) => links.length),
    );
  });

  test("are found from the README and from each other", () => {
    const readme = readFileSync(join(packageRoot(), "README.md"), "utf8");
    for (const path of GUIDES) expect(readme.includes(`(${path})`), path).toBe(true);
    expect(readFileSync(join(packageRoot(), GUIDES[0]), "utf8")).toContain("(guide.zh-CN.md)");
    expect(readFileSync(join(packageRoot(), GUIDES[1]), "utf8")).toContain("(guide.md)");
  });
});

describe("blocks", () => {
  test("of JSON are accepted without a warning by what reads them", () => {
    const texts = [
      ...blocks.filter(({ language }) => language === "json").map(({ text }) => text),
      ...blocks.flatMap(({ text }) =>
        [...text.matchAll(/--kv-(?:transfer|events)-config '([^']+)'/g)].map((each) => each[1]),
      ),
    ];
    const read = texts.map((text = "") => readBlock(text));
    expect(new Set(read)).toEqual(new Set(["store", "transfer", "events"]));
  });

  test("that show all extra settings differ from the defaults", () => {
    const all = blocks.find(({ text }) => text.includes('"shutdown_timeout_ms"'))?.text ?? "";
    const { kv_connector_extra_config: extra } = JSON.parse(all) as Record<string, object>;
    const table = section(10).tables.flatMap(({ rows }) => rows);
    for (const [key, value] of Object.entries(extra ?? {})) {
      const row = table.find(([name]) => name === `\`${key}\``);
      expect(row?.[1], key).not.toBe(`\`${JSON.stringify(value)}\``);
    }
  });

  test("name the release of the wheel that is tested", () => {
    const install = blocks.find(({ text }) => text.includes("pip install"))?.text;
    expect(install).toContain(`==${wheel.wheelVersion}`);
  });

  test("of bash have a marker, or are one of those that cannot run here", () => {
    const unmarked = blocks.filter(
      ({ language, action }) => language === "bash" && action === null,
    );
    const known = [/^npm install /, /^export [A-Z_]+=/, /\bvllm serve /];
    for (const { text, line } of unmarked)
      expect(
        known.some((each) => each.test(text)),
        `line ${line}`,
      ).toBe(true);
  });

  test("of another version's connector are not shown before it is there", () => {
    const environment = readEnvironment({ MOONCAKE_CONFIG_PATH: storePath });
    for (const connector of ["MultiConnector", "MooncakeConnector"])
      expect(() =>
        parseTransferConfig({ kv_connector: connector, kv_role: "kv_both" }, environment),
      ).toThrow(expect.objectContaining({ code: "UNSUPPORTED" }) as Error);
  });
});

describe("names", () => {
  test("of store fields: all, and their defaults", () => {
    const rows = section(4).tables[0]?.rows ?? [];
    expect(keysOf(rows).toSorted()).toEqual(STORE_CONFIG_FIELDS.toSorted());
    for (const [key, value] of defaultsOf(rows))
      expect(parseStoreConfig({ [key]: value }), key).toEqual(parseStoreConfig({}));
  });

  test("of extra settings: all, and their defaults", () => {
    const rows = section(10).tables.flatMap((table) => table.rows);
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

  test("of KV events: all", () => {
    const { config } = parseKvEventsConfig({ enable_kv_cache_events: true });
    expect(config.publisher).toBe("zmq");
    const guide = readFileSync(join(packageRoot(), "docs/kv-events.md"), "utf8");
    for (const word of section(12).codeWords.filter((each) => /^[a-z_]+$/.test(each)))
      expect(guide).toContain(word);
  });

  test("of environment variables: all that the code reads, and their defaults", () => {
    const rows = section(8).tables[0]?.rows ?? [];
    const tuning = section(17).tables[0]?.rows ?? [];
    const owners = section(7).tables[1]?.rows ?? [];
    const listed = [...rows, ...tuning, ...owners].map(([cell = ""]) => cell.replaceAll("`", ""));
    const known = variablesOf("src", ".ts").filter((name) => !INTERNAL.includes(name));
    const nativeOnes = variablesOf("native/engines/mooncake", ".cc");
    for (const name of [...known, ...nativeOnes])
      expect([...listed, ...section(17).codeWords], name).toContain(name);
    for (const [cell = ""] of rows) expect(known).toContain(cell.replaceAll("`", ""));
    for (const [key, value] of defaultsOf(rows))
      expect(readEnvironment({ [key]: String(value) }), key).toEqual(readEnvironment({}));
  });

  test("of variables elsewhere in the guide: the code's or the wheel's", () => {
    const ours = new Set(variablesOf("src", ".ts"));
    const words = blocks.flatMap(({ text }) => [...text.matchAll(VARIABLE)].map(([name]) => name));
    const named = english.flatMap(({ codeWords }) => codeWords).filter((word) => ONLY.test(word));
    const theirs = [...new Set([...words, ...named])].filter((name) => !ours.has(name));
    expect(theirs.length).toBeGreaterThan(3);
    const libraries = readdirSync(wheel.mooncakeFolder, { withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.so|^mooncake_|^[^.]+$/.test(entry.name))
      .map((entry) => readFileSync(join(wheel.mooncakeFolder, entry.name)));
    for (const name of theirs)
      expect(
        libraries.some((library) => library.includes(name)),
        name,
      ).toBe(true);
  });

  test("of outcomes: all", () => {
    const outcomes = section(14).tables.find(({ rows }) => rows[0]?.[0] === "`NONE`")?.rows ?? [];
    expect(keysOf(outcomes)).toEqual([...OUTCOME_LABELS]);
  });

  test("of metrics are those of families", () => {
    const families = [COUNTER_FAMILIES, GAUGE_FAMILIES, HISTOGRAM_FAMILIES]
      .flatMap((group) => Object.values(group))
      .map(({ name }) => name);
    const named = english
      .flatMap(({ codeWords }) => codeWords)
      .filter((word) => /^(mooncake_kv|vllm:)\w+$/.test(word));
    expect(named.length).toBeGreaterThan(4);
    for (const name of named) expect(families).toContain(name);
  });
});

test("the reader sees what is wrong with a guide", () => {
  expect(() => readMarkdown("## 1. A\n```bash\nls\n")).toThrow("does not end");
  expect(() => readMarkdown("## 1. A\n<!-- sprint -->\n")).toThrow("no such marker");
  expect(() => readMarkdown("## A\n")).toThrow("without a number");
  const [only] = readMarkdown(
    "## 1. A\n<!-- run; prints: x -->\n```bash\nls\n```\n| `a` | b |\n|---|---|\n| 1 | 2 |\n",
  );
  expect(only?.blocks[0]).toMatchObject({ text: "ls\n", action: { kind: "run", prints: "x" } });
  expect(only?.tables).toEqual([{ head: ["`a`", "b"], rows: [["1", "2"]] }]);
  expect(only?.codeWords).toEqual(["a"]);
});

/** Set by a process for its own child. */
const INTERNAL: readonly string[] = ["MOONCAKE_KV_POOL_DETACHED"];
const VARIABLE = /\b(?:MOONCAKE|VLLM|MC|XDG)_[A-Z0-9_]*[A-Z0-9]\b|\bPYTHONHASHSEED\b/g;
const ONLY = /^(?:MOONCAKE|VLLM|MC|XDG)_[A-Z0-9_]+$/;

/** Names of variables that stand as texts in these sources, and PATH. */
function variablesOf(under: string, ending: string): string[] {
  const files = readdirSync(join(packageRoot(), under), { recursive: true, encoding: "utf8" });
  const names = new Set<string>(ending === ".ts" ? ["PATH"] : []);
  for (const file of files.filter((each) => each.endsWith(ending))) {
    const text = readFileSync(join(packageRoot(), under, file), "utf8");
    for (const [, name = ""] of text.matchAll(
      /"((?:MOONCAKE|VLLM|MC|XDG)_[A-Z0-9_]+|PYTHONHASHSEED)"/g,
    ))
      names.add(name);
  }
  return [...names].toSorted();
}

/** Which parser took the text; throws, or fails, for anything that a user would stumble over. */
function readBlock(text: string): "store" | "transfer" | "events" {
  const file = JSON.parse(text) as Record<string, unknown>;
  const [kind, warnings] = ((): ["store" | "transfer" | "events", readonly unknown[]] => {
    if (Object.hasOwn(file, "master_server_address")) {
      const segment = file["mode"] === "standalone-store" ? "127.0.0.1:50053" : null;
      return ["store", loadStoreConfig(writeJson("block.json", text), segment).warnings];
    }
    if (Object.hasOwn(file, "enable_kv_cache_events"))
      return ["events", parseKvEventsConfig(text).warnings];
    const environment = readEnvironment({ MOONCAKE_CONFIG_PATH: pathFor(file) });
    return ["transfer", parseTransferConfig(text, environment).warnings];
  })();
  expect(warnings, text).toEqual([]);
  return kind;
}

/** With a preferred segment a pool of outside owners is meant. */
function pathFor(file: Readonly<Record<string, unknown>>): string {
  const extra = (file["kv_connector_extra_config"] ?? {}) as Record<string, unknown>;
  if (!Object.hasOwn(extra, "preferred_segment")) return storePath;
  return writeJson("disk.json", blocks.find((block) => isFile(block, "disk.json"))?.text);
}

function writeJson(name: string, text: string | undefined): string {
  const path = join(folder, name);
  writeFileSync(path, text ?? "this block is not in the guide");
  return path;
}

function isFile({ action }: GuideBlock, name: string): boolean {
  return action?.kind === "file" && action.name === name;
}

function section(number: number): GuideSection {
  const found = english.find((each) => each.number === number);
  if (found === undefined) throw new Error(`the guide has no section ${number}`);
  return found;
}

function shape({ number, headingLevels, tables }: GuideSection): unknown {
  return {
    number,
    headingLevels,
    tables: tables.map(({ head, rows }) => [head.length, rows.length]),
  };
}

function isCode(cell: string | undefined): boolean {
  return cell !== undefined && /^`[^`]+`$/.test(cell);
}

/** Sorted, because languages differ in the order of words. */
function codeOf(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map((match) => match[1] ?? "").toSorted();
}

function keysOf(rows: readonly (readonly string[])[]): string[] {
  return rows.map(([cell = ""]) => cell.replaceAll("`", ""));
}

/** Keys and values of the rows whose second cell is a JSON value. */
function defaultsOf(rows: readonly (readonly string[])[]): [key: string, value: unknown][] {
  const given = rows.filter((row) => isCode(row[1]));
  expect(given.length).toBeGreaterThan(0);
  return given.map(([key = "", value = ""]) => [
    key.replaceAll("`", ""),
    JSON.parse(value.slice(1, -1)) as unknown,
  ]);
}

/** Anchors of a Markdown file's headings, as GitHub makes them. */
function anchors(path: string): string[] {
  const text = readFileSync(join(packageRoot(), path), "utf8");
  return [...text.matchAll(/^#+ (.+)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
      .replaceAll(" ", "-"),
  );
}
