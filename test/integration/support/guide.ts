import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../../src/worker-entry.ts";

/** What the comment in front of a block asks the test to do with it; readers do not see it. */
export type GuideAction =
  /** `<!-- run -->`, `<!-- run; prints: TEXT -->`: ends by itself with exit code 0, and has printed the text. */
  | { readonly kind: "run"; readonly prints: string | null }
  /** `<!-- start; prints: TEXT -->`: runs until a stop; the next block comes when the text was printed. */
  | { readonly kind: "start"; readonly prints: string }
  /** `<!-- file: NAME -->`: the block is this file's content. */
  | { readonly kind: "file"; readonly name: string }
  /** `<!-- stop -->`, on its own: ends everything that was started, in reverse order. */
  | { readonly kind: "stop" };

export interface GuideBlock {
  readonly language: string;
  readonly text: string;
  readonly action: GuideAction | null;
  /** Line of the file, for messages. */
  readonly line: number;
}

export interface GuideTable {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** One `##` section; `number` is the one in front of its title. */
export interface GuideSection {
  readonly number: number;
  /** Levels of all headings, in order. */
  readonly headingLevels: readonly number[];
  readonly blocks: readonly GuideBlock[];
  readonly tables: readonly GuideTable[];
  /** Text between backticks outside of blocks, sorted, each once. */
  readonly codeWords: readonly string[];
  readonly links: readonly string[];
}

export const GUIDES = ["docs/guide.md", "docs/guide.zh-CN.md"] as const;

export function readGuide(path: string): readonly GuideSection[] {
  return readMarkdown(readFileSync(join(packageRoot(), path), "utf8"));
}

/** The section with this number. */
export function sectionOf(guide: readonly GuideSection[], number: number): GuideSection {
  const found = guide.find((section) => section.number === number);
  if (found === undefined) throw new Error(`the guide has no section ${number}`);
  return found;
}

/** Throws for a block that never ends, a marker that nobody knows, and a `##` heading without a number. */
export function readMarkdown(text: string): readonly GuideSection[] {
  const sections: Draft[] = [];
  let action: GuideAction | null = null;
  const lines = text.split("\n");
  for (let index = 0; index < lines.length; index++) {
    const line = lines[index] ?? "";
    const section = sections.at(-1);
    const heading = /^(#{2,6}) (.+)$/.exec(line);
    const marker = /^<!-- (.+) -->$/.exec(line);
    const fence = /^```(.*)$/.exec(line);
    if (heading !== null && heading[1] === "##") {
      const number = Number(/^(\d+)\. /.exec(heading[2] ?? "")?.[1] ?? "none");
      if (Number.isNaN(number)) throw new Error(`line ${index + 1}: a section without a number`);
      sections.push({
        number,
        levels: [2],
        blocks: [],
        tables: [],
        words: new Set(),
        links: [],
        tableOpen: false,
      });
    } else if (heading !== null) section?.levels.push(heading[1]?.length ?? 0);
    else if (marker !== null) {
      action = readAction(marker[1] ?? "", index + 1);
      if (action.kind === "stop") {
        section?.blocks.push({ language: "", text: "", action, line: index + 1 });
        action = null;
      }
    } else if (fence !== null) {
      const end = lines.indexOf("```", index + 1);
      if (end < 0) throw new Error(`line ${index + 1}: this block does not end`);
      const body = `${lines.slice(index + 1, end).join("\n")}\n`;
      section?.blocks.push({ language: fence[1] ?? "", text: body, action, line: index + 1 });
      action = null;
      index = end;
    } else readProse(line, section);
  }
  return sections.map(({ number, levels, blocks, tables, words, links }) => ({
    number,
    headingLevels: levels,
    blocks,
    tables,
    codeWords: [...words].toSorted(),
    links,
  }));
}

interface Draft {
  readonly number: number;
  readonly levels: number[];
  readonly blocks: GuideBlock[];
  readonly tables: { head: string[]; rows: string[][] }[];
  readonly words: Set<string>;
  readonly links: string[];
  /** Whether the line before was a table's. */
  tableOpen: boolean;
}

function readAction(text: string, line: number): GuideAction {
  const prints = /; prints: (.+)$/.exec(text)?.[1] ?? null;
  const name = /^file: (\S+)$/.exec(text)?.[1];
  if (name !== undefined) return { kind: "file", name };
  if (text === "run" || (text.startsWith("run; ") && prints !== null))
    return { kind: "run", prints };
  if (text.startsWith("start; ") && prints !== null) return { kind: "start", prints };
  if (text === "stop") return { kind: "stop" };
  throw new Error(`line ${line}: no such marker: ${text}`);
}

function readProse(line: string, section: Draft | undefined): void {
  if (section === undefined) return;
  for (const [, word = ""] of line.matchAll(/`([^`]+)`/g)) section.words.add(word);
  for (const [, target = ""] of line.matchAll(/\]\(([^)]+)\)/g)) section.links.push(target);
  if (!line.startsWith("|")) {
    section.tableOpen = false;
    return;
  }
  const cells = line
    .slice(1, line.lastIndexOf("|"))
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll(String.raw`\|`, "|"));
  if (cells.every((cell) => /^:?-+:?$/.test(cell))) return;
  if (section.tableOpen) section.tables.at(-1)?.rows.push(cells);
  else section.tables.push({ head: cells, rows: [] });
  section.tableOpen = true;
}
