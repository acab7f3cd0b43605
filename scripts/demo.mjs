// `npm run demo -- [arguments]`: sets the checkout up and runs the demonstration with the arguments. Progress goes to
// standard error, so that with --json standard output holds the JSON alone (run it as `npm run --silent demo`).
import { existsSync } from "node:fs";
import { join } from "node:path";
import { readArguments } from "./lib/arguments.mjs";
import { root, runAttached, runMain, StepFailure } from "./lib/steps.mjs";
import { setUp } from "./setup.mjs";

/** The demonstration's own options; src/cli/demo.ts says what they mean and checks their values. */
const OPTIONS = {
  model: { type: "string" },
  json: { type: "boolean" },
  trace: { type: "string" },
  "prefix-caching-hash-algo": { type: "string" },
  help: { type: "boolean", short: "h" },
};
const USAGE =
  "npm run demo -- [--model NAME] [--json] [--trace FILE] [--prefix-caching-hash-algo NAME] [--help]";

await runMain(async () => {
  readArguments(process.argv.slice(2), OPTIONS, USAGE);
  await setUp();
  const script = join(root, "dist", "cli", "demo.js");
  if (!existsSync(script))
    throw new StepFailure(`${script} is missing: src/cli/demo.ts has not been compiled.`);
  process.exitCode = await runAttached(process.execPath, [script, ...process.argv.slice(2)], {
    timeoutSeconds: 3600,
  });
});
