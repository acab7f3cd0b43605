// `npm run attack -- [--json] [--seconds N] [--seed N] [--inputs N] [--target NAME]`: sets the checkout up, compiles test/attack and
// gives wrong inputs to every door for a minute. The last line is `attack N inputs, N failed`.
import { join } from "node:path";
import { readArguments } from "./lib/arguments.mjs";
import { root, runAttached, runMain, runStep } from "./lib/steps.mjs";
import { setUp } from "./setup.mjs";

const TEXT = { type: "string" };
const OPTIONS = {
  json: { type: "boolean" },
  seconds: TEXT,
  seed: TEXT,
  inputs: TEXT,
  target: TEXT,
};
const USAGE = "npm run attack -- [--json] [--seconds N] [--seed N] [--inputs N] [--target NAME]";

await runMain(async () => {
  const args = process.argv.slice(2);
  readArguments(args, OPTIONS, USAGE);
  await setUp();
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  await runStep("compile the attack", process.execPath, [compiler, "-p", "tsconfig.attack.json"]);
  const main = join(root, "build", "attack", "test", "attack", "main.js");
  process.exitCode = await runAttached(process.execPath, [main, ...args], {
    timeoutSeconds: 6 * 3600,
  });
});
