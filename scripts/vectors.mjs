// `npm run vectors -- [DIR]`: compares every golden vector file of a folder (default test/vectors/data), prints the cases of
// each and the line "N passed, N failed". Ends with 1 when a case fails, none runs, or a file is of no known kind.
import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import { readArguments } from "./lib/arguments.mjs";
import { root, runAttached, runMain, runStep, StepFailure } from "./lib/steps.mjs";
import { setUp } from "./setup.mjs";

const USAGE = "npm run vectors -- [DIR]";

await runMain(async () => {
  const { positionals } = readArguments(process.argv.slice(2), {}, USAGE, { positionals: true });
  const [given, ...rest] = positionals;
  if (rest.length > 0) throw new StepFailure(`One folder at a time: ${USAGE}`);
  const folder = given === undefined ? join(root, "test", "vectors", "data") : resolve(given);
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory())
    throw new StepFailure(`${folder} is no folder with vector files. ${USAGE}`);
  await setUp();
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  await runStep("compile the runner", process.execPath, [compiler, "-p", "tsconfig.vectors.json"]);
  const runner = join(root, "build", "vectors", "test", "vectors", "runner", "main.js");
  process.exitCode = await runAttached(process.execPath, [runner, folder]);
});
