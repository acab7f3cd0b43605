// `npm run bench -- NAME [--json FILE]`: sets the checkout up, compiles bench/ and runs one suite.
import { existsSync, readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { readArguments } from "./lib/arguments.mjs";
import { root, runAttached, runMain, runStep, StepFailure } from "./lib/steps.mjs";
import { setUp } from "./setup.mjs";

const ENDING = ".bench.ts";
/** What single benchmarks take beside --json. */
const OWN_OPTIONS = { ttft: { model: { type: "string" }, trace: { type: "string" } } };

await runMain(async () => {
  const args = process.argv.slice(2);
  const usage = "npm run bench -- NAME [--json FILE]";
  const names = benchmarkNames();
  const name = args.find((arg) => !arg.startsWith("-"));
  if (name === undefined || !names.includes(name)) {
    const problem =
      name === undefined ? "Which benchmark?" : `There is no benchmark ${JSON.stringify(name)}.`;
    throw new StepFailure(`${problem} ${usage}, NAME one of: ${names.join(", ")}`);
  }
  const own = Object.keys(OWN_OPTIONS[name] ?? {}).map((option) => ` [--${option} VALUE]`);
  const options = { json: { type: "string" }, ...OWN_OPTIONS[name] };
  const { positionals } = readArguments(args, options, usage + own.join(""), { positionals: true });
  if (positionals.length > 1) throw new StepFailure(`One benchmark at a time: ${usage}`);
  const rest = args.filter((arg) => arg !== name);
  await setUp();
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  await runStep("compile the benchmarks", process.execPath, [
    compiler,
    "-p",
    "tsconfig.bench.json",
  ]);
  linkDist();
  const script = join(root, "build", "bench", "bench", `${name}.bench.js`);
  process.exitCode = await runAttached(process.execPath, ["--expose-gc", script, ...rest], {
    timeoutSeconds: 3600,
  });
});

function benchmarkNames() {
  const files = existsSync(join(root, "bench")) ? readdirSync(join(root, "bench")) : [];
  return files.filter((file) => file.endsWith(ENDING)).map((file) => file.slice(0, -ENDING.length));
}

/** A benchmark may import ../dist/*.js; compiled, it lies in build/bench/bench, so that dist must be found beside it. */
function linkDist() {
  const link = join(root, "build", "bench", "dist");
  if (!existsSync(link)) symlinkSync(join("..", "..", "dist"), link);
}
