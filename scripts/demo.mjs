// `npm run demo -- [arguments]`: sets the checkout up and runs the demonstration with the arguments. Progress goes to
// standard error, so that with --json standard output holds the JSON alone (run it as `npm run --silent demo`).
import { existsSync } from "node:fs";
import { join } from "node:path";
import { root, runAttached, runMain, StepFailure } from "./lib/steps.mjs";
import { setUp } from "./setup.mjs";

await runMain(async () => {
  await setUp();
  const script = join(root, "dist", "cli", "demo.js");
  if (!existsSync(script))
    throw new StepFailure(`${script} is missing: src/cli/demo.ts has not been compiled.`);
  process.exitCode = await runAttached(process.execPath, [script, ...process.argv.slice(2)], {
    timeoutSeconds: 3600,
  });
});
