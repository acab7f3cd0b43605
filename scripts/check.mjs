// `npm run check`: types, lint, format, house rules. Shows everything that is wrong, not only the first.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { readArguments } from "./lib/arguments.mjs";
import { CHECKS } from "./lib/checks.mjs";
import { root, runMain, StepFailure } from "./lib/steps.mjs";
import { checkSuite, vitestSuite } from "./lib/suites.mjs";

await runMain(async () => {
  readArguments(process.argv.slice(2), {}, "npm run check, without arguments");
  if (!existsSync(join(root, "node_modules", ".package-lock.json"))) {
    throw new StepFailure("The npm packages are not installed. Run `npm run setup` first.");
  }
  const results = [await checkSuite(CHECKS), await vitestSuite("house")];
  for (const { failed, output } of results) if (failed > 0) process.stdout.write(`\n${output}\n`);
  process.exitCode = results.some(({ failed }) => failed > 0) ? 1 : 0;
});
