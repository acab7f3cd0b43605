// Goal: the rules of the house hold in every file of the project, and each rule can tell a breach from good code.
// Method: each rule reads the real files and must find nothing; each rule also reads a good and a bad sample.
import { beforeAll, describe, expect, test } from "vitest";

import { fileCycles, folderCycles } from "./rules/cycles.ts";
import { atomicsArePaired, everyTestRuns, noAny, outsideWorld } from "./rules/code.ts";
import { layers } from "./rules/layers.ts";
import { messagesAreDocumented } from "./rules/messages.ts";
import {
  fileLength,
  LINES_WARN,
  linesOf,
  noDisabledNativeTests,
  noMachinePaths,
  pinnedVersions,
  testsSayTheirGoal,
} from "./rules/text.ts";
import { SAMPLES } from "./samples.ts";
import { readFiles } from "./source-file.ts";
import type { Rule, SourceFile } from "./source-file.ts";

const source = readFiles("src", [".ts"]);
const native = readFiles("native", [".cc", ".h"]);
const tests = readFiles("test", [".ts", ".mjs"]);
const testFiles = tests.filter((file) => file.path.endsWith(".test.ts"));
const benchmarks = readFiles("bench", [".ts"]);
const everything = readFiles("", [
  ".ts",
  ".mjs",
  ".js",
  ".json",
  ".md",
  ".cc",
  ".h",
  ".txt",
  ".cmake",
  ".sh",
  ".html",
  ".css",
]);

const RULES: readonly { name: string; rule: Rule; files: readonly SourceFile[] }[] = [
  { name: "files are short", rule: fileLength, files: [...source, ...native] },
  { name: "imports point one way", rule: layers, files: source },
  { name: "no cycles of files", rule: fileCycles, files: source },
  { name: "no cycles of folders", rule: folderCycles, files: source },
  { name: "no any", rule: noAny, files: [...source, ...tests, ...benchmarks] },
  { name: "clock, randomness and log come in from outside", rule: outsideWorld, files: source },
  { name: "atomics name their pair", rule: atomicsArePaired, files: source },
  {
    name: "every message is documented",
    rule: messagesAreDocumented,
    files: source.filter((file) => file.path === "src/actors/messages.ts"),
  },
  { name: "every test runs", rule: everyTestRuns, files: tests },
  {
    name: "no native test is disabled",
    rule: noDisabledNativeTests,
    files: readFiles("test/native", [".cc"]),
  },
  { name: "tests say their goal", rule: testsSayTheirGoal, files: testFiles },
  { name: "no paths of one machine", rule: noMachinePaths, files: everything },
  {
    name: "exact versions",
    rule: pinnedVersions,
    files: everything.filter((file) => file.path === "package.json"),
  },
];

describe.each(RULES)("$name", ({ name, rule, files }) => {
  test("in the project", () => {
    expect(files.length, "the rule read no file").toBeGreaterThan(0);
    const breaches = rule(files).map(({ path, line, problem }) => `${path}:${line} ${problem}`);
    expect(breaches).toEqual([]);
  });

  test("the rule finds a breach, and only that", () => {
    const { good, bad } = SAMPLES[name] ?? { good: [], bad: [] };
    expect(bad.length, "the rule has no bad sample").toBeGreaterThan(0);
    for (const [problem, ...sample] of bad) {
      const found = rule(sample).map((breach) => `${breach.path}:${breach.line} ${breach.problem}`);
      expect(found, `${sample[0]?.text}`).toEqual([expect.stringContaining(problem)]);
    }
    for (const sample of good) expect(rule(sample), `${sample[0]?.text}`).toEqual([]);
  });
});

beforeAll(() => {
  for (const { path, text } of [...source, ...native]) {
    const count = linesOf(text);
    if (count > LINES_WARN) console.info(`${path}: ${count} lines, more than ${LINES_WARN}`);
  }
});
