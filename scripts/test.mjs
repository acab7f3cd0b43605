// `npm test`: sets the checkout up, runs every suite, ends with one line "N passed, N failed".
//   --full        the long counts and soaks too
//   --only a,b    only these suites (names as printed)
import { existsSync } from "node:fs";
import { join } from "node:path";
import { CHECKS } from "./lib/checks.mjs";
import { root, StepFailure } from "./lib/steps.mjs";
import { checkSuite, nativeSuite, vitestSuite } from "./lib/suites.mjs";
import { setUp } from "./setup.mjs";

const full = process.argv.includes("--full");
const onlyAt = process.argv.indexOf("--only");
const only = onlyAt < 0 ? null : (process.argv[onlyAt + 1] ?? "").split(",");

/** Suites with their time limits in seconds, cheapest first. */
const SUITES = [
  { name: "check", run: () => checkSuite(CHECKS) },
  { name: "house", run: () => vitestSuite("house", 120) },
  { name: "unit", run: () => vitestSuite("unit", 300) },
  { name: "property", run: () => vitestSuite("property", 180) },
  { name: "vectors", run: () => vitestSuite("vectors", 180) },
  { name: "native", run: () => nativeSuite("", 300) },
  { name: "native-address", run: () => nativeSuite("address", 400) },
  { name: "native-thread", run: () => nativeSuite("thread", 400) },
  { name: "integration", run: () => vitestSuite("integration", 480) },
  { name: "sim", run: () => vitestSuite("sim", 400) },
  ...(full ? [{ name: "full", run: () => vitestSuite("full", 3600) }] : []),
];

const results = [];
async function main() {
  await setUp({ tests: true });
  for (const { name, run } of SUITES) {
    if (only !== null && !only.includes(name)) continue;
    const began = Date.now();
    const result = await run();
    results.push({ suite: name, passed: result.passed, failed: result.failed, seconds: Math.round((Date.now() - began) / 1000) });
    if (result.failed > 0) process.stdout.write(`\n${name} failed:\n${result.output.slice(-30_000)}\n`);
    if ((result.skipped ?? 0) > 0) {
      process.stdout.write(`${name}: ${result.skipped} tests were skipped, which counts as failed\n`);
      results.at(-1).failed += result.skipped;
    }
  }
}

try {
  if (!existsSync(join(root, "package-lock.json"))) throw new StepFailure("package-lock.json is missing: this is not a whole checkout.");
  await main();
} catch (error) {
  process.stdout.write(`${error instanceof StepFailure ? error.message : error.stack}\n`);
  results.push({ suite: "setup", passed: 0, failed: 1, seconds: 0 });
}
console.table(results);
const sum = (key) => results.reduce((total, result) => total + result[key], 0);
process.stdout.write(`${sum("passed")} passed, ${sum("failed")} failed\n`);
process.exitCode = sum("failed") > 0 ? 1 : 0;
