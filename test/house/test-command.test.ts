// Goal: the closing line of the test command counts honestly: nothing that did not run or did not pass is hidden.
// Method: the counting functions of scripts/ read reports in the formats of vitest and ctest.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";

import defaults from "../../vitest.config.ts";
import { root } from "./source-file.ts";

interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}
interface Suites {
  readonly countVitest: (report: unknown, code: number, output: string) => Counts;
  readonly countJunit: (xml: string, code: number, output: string) => Counts;
}
interface Tools {
  readonly nodeProblem: (version: string) => string | null;
}

const load = async (name: string): Promise<unknown> =>
  import(pathToFileURL(join(root, "scripts", "lib", name)).href);
const { countVitest, countJunit } = (await load("suites.mjs")) as Suites;
const { nodeProblem } = (await load("tools.mjs")) as Tools;

const report = (...files: { status: string; tests: string[] }[]): unknown => ({
  testResults: files.map(({ status, tests }) => ({
    status,
    assertionResults: tests.map((each) => ({ status: each })),
  })),
});

test("passed and failed tests are counted one by one", () => {
  const files = report(
    { status: "failed", tests: ["passed", "failed"] },
    { status: "passed", tests: ["passed"] },
  );
  expect(countVitest(files, 1, "")).toMatchObject({ passed: 2, failed: 1, skipped: 0 });
});

test("a skipped test counts as failed", () => {
  const files = report({ status: "passed", tests: ["passed", "skipped", "todo"] });
  expect(countVitest(files, 0, "")).toMatchObject({ passed: 1, failed: 2, skipped: 2 });
});

test("a file that could not be loaded is one failure", () => {
  const files = report({ status: "failed", tests: [] }, { status: "passed", tests: ["passed"] });
  expect(countVitest(files, 1, "")).toMatchObject({ passed: 1, failed: 1 });
});

test("an error outside of any test is one failure", () => {
  expect(countVitest(report({ status: "passed", tests: ["passed"] }), 1, "")).toMatchObject({
    passed: 1,
    failed: 1,
  });
  expect(countVitest(report(), 0, "")).toMatchObject({ passed: 0, failed: 1 });
});

const junit = (tests: number, failures: number, disabled: number, skipped: number): string =>
  `<?xml version="1.0"?>\n<testsuite name="(empty)"\n\ttests="${tests}"\n\tfailures="${failures}"\n` +
  `\tdisabled="${disabled}"\n\tskipped="${skipped}"\n\ttime="0"\n\t>\n<testcase name="a" tests="9"/>`;

test("native tests: failed and disabled ones are failures, those without their hardware count neither way", () => {
  expect(countJunit(junit(10, 0, 0, 0), 0, "")).toMatchObject({
    passed: 10,
    failed: 0,
    skipped: 0,
  });
  expect(countJunit(junit(10, 2, 1, 3), 8, "")).toMatchObject({ passed: 4, failed: 3, skipped: 3 });
});

test("native tests: no tests, no report, or an exit code that tells more is a failure", () => {
  expect(countJunit(junit(0, 0, 0, 0), 0, "")).toMatchObject({ passed: 0, failed: 1 });
  expect(countJunit("", 0, "")).toMatchObject({ passed: 0, failed: 1 });
  expect(countJunit(junit(10, 0, 0, 0), 8, "")).toMatchObject({ passed: 10, failed: 1 });
});

test("Node versions", () => {
  for (const version of ["20.19.0", "20.20.2", "22.12.0", "24.0.0"])
    expect(nodeProblem(version)).toBeNull();
  for (const version of ["18.20.0", "20.18.3"])
    expect(nodeProblem(version)).toContain(`Node ${version} is too old`);
});

interface Arguments {
  readonly readArguments: (args: string[], options: object, usage: string, more?: object) => object;
}

test("a flag that a script does not know is refused before anything is set up", async () => {
  const { readArguments } = (await load("arguments.mjs")) as Arguments;
  const options = { json: { type: "string" } };
  expect(readArguments(["--json", "f"], options, "NAME")).toMatchObject({ values: { json: "f" } });
  expect(() => readArguments(["--jsno", "f"], options, "NAME [--json FILE]")).toThrow(
    "Unknown option '--jsno'. Known: NAME [--json FILE]",
  );
  expect(() => readArguments(["--json"], options, "NAME [--json FILE]")).toThrow(/Known: NAME/);
  expect(() => readArguments(["word"], options, "no words")).toThrow(/Known: no words/);
});

test.each(["bench.mjs", "check.mjs", "demo.mjs", "setup.mjs", "test.mjs", "vectors.mjs"])(
  "%s ends at once on a flag that it does not know",
  (script) => {
    const answer = spawnSync(process.execPath, [join(root, "scripts", script), "--no-such-flag"], {
      encoding: "utf8",
      timeout: 10_000,
    });
    expect(answer.status).toBe(1);
    const said = `${answer.stdout}${answer.stderr}`;
    expect(said).toMatch(/no-such-flag|Which benchmark/);
    expect(said).not.toMatch(/✓|…/);
  },
);

test("limits end what hangs: none decides between a slow machine and a fast one", async () => {
  const { HANG_SECONDS } = (await load("steps.mjs")) as { readonly HANG_SECONDS: number };
  expect(HANG_SECONDS).toBeGreaterThanOrEqual(3600);
  const suites = readFileSync(join(root, "scripts", "test.mjs"), "utf8");
  // A suite with a number of seconds of its own would be stopped beside other work.
  expect(suites).not.toMatch(/Suite\([^)]*\b\d+\)/);
  const { test: settings } = defaults as { test: { testTimeout: number; hookTimeout: number } };
  expect(Math.min(settings.testTimeout, settings.hookTimeout)).toBeGreaterThanOrEqual(300_000);
});
