import { setUp } from "../setup.mjs";
import { readArguments } from "./arguments.mjs";
import { secondsSince, StepFailure } from "./steps.mjs";

const OPTIONS = { full: { type: "boolean" }, only: { type: "string" } };
const USAGE = "npm test -- [--full] [--only SUITE,SUITE]";

/** Sets up, runs the suites that `args` choose, prints the table and the closing line, sets the exit code. */
export async function runTests(args, suites) {
  const rows = [];
  try {
    const { full = false, only } = readArguments(args, OPTIONS, USAGE).values;
    const wanted = only?.split(",");
    const chosen = choose(suites(full || (wanted?.includes("full") ?? false)), wanted);
    await setUpRow(rows);
    for (const suite of chosen) rows.push(await runSuite(suite));
  } catch (error) {
    process.stdout.write(`\n${error instanceof StepFailure ? error.message : error.stack}\n`);
    rows.push({ suite: "could not go on", passed: 0, failed: 1, skipped: 0, seconds: 0 });
  }
  printTable(rows);
  const passed = sum(rows, "passed");
  const failed = sum(rows, "failed");
  process.exitCode = failed > 0 ? 1 : 0;
  process.stdout.write(`${passed} passed, ${failed} failed\n`);
}

function choose(suites, only) {
  if (only === undefined) return suites;
  const names = suites.map((suite) => suite.name);
  const unknown = only.filter((name) => !names.includes(name));
  if (unknown.length > 0)
    throw new StepFailure(`--only: no suite ${unknown.join(", ")}. Known: ${names.join(", ")}.`);
  return suites.filter((suite) => only.includes(suite.name));
}

async function setUpRow(rows) {
  const began = Date.now();
  await setUp({ tests: true });
  rows.push({ suite: "setup", passed: 0, failed: 0, skipped: 0, seconds: secondsSince(began) });
}

async function runSuite({ name, run }) {
  const began = Date.now();
  const { passed, failed, skipped, output } = await run();
  if (failed > 0) process.stdout.write(`\n--- ${name} failed ---\n${output.slice(-30_000)}\n`);
  return { suite: name, passed, failed, skipped, seconds: secondsSince(began) };
}

function printTable(rows) {
  const columns = ["suite", "passed", "failed", "skipped", "seconds"];
  const total = {
    suite: "all",
    ...Object.fromEntries(columns.slice(1).map((column) => [column, sum(rows, column)])),
  };
  total.seconds = Math.round(total.seconds * 10) / 10;
  const lines = [Object.fromEntries(columns.map((column) => [column, column])), ...rows, total];
  const widths = columns.map((column) =>
    Math.max(...lines.map((line) => String(line[column]).length)),
  );
  for (const line of lines) {
    const cells = columns.map((column, at) =>
      at === 0
        ? String(line[column]).padEnd(widths[at])
        : String(line[column]).padStart(widths[at]),
    );
    process.stdout.write(`${cells.join("  ")}\n`);
  }
}

function sum(rows, column) {
  return rows.reduce((total, row) => total + row[column], 0);
}
