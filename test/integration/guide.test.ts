/**
 * Goal: the guide says the same in both languages, and its JSON is accepted without a warning by what reads it.
 * Method: both files are read into sections, blocks, tables and words in backticks, which must be equal; blocks go through the
 * parsers of the connector.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readEnvironment } from "../../src/config/environment.ts";
import { parseKvEventsConfig } from "../../src/config/kv-events-config.ts";
import { loadStoreConfig } from "../../src/config/store-config.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";
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

function shape({ number, headingLevels, tables }: GuideSection): unknown {
  return {
    number,
    headingLevels,
    tables: tables.map(({ head, rows }) => [head.length, rows.length]),
  };
}

/** Sorted, because languages differ in the order of words. */
function codeOf(cell: string): string[] {
  return [...cell.matchAll(/`([^`]+)`/g)].map((match) => match[1] ?? "").toSorted();
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
