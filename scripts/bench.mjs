// `npm run bench -- NAME [--json FILE]`: sets the checkout up, compiles bench/ and runs one suite.
import { existsSync, readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { root, runAttached, runMain, runStep, StepFailure } from "./lib/steps.mjs";
import { setUp } from "./setup.mjs";

const ENDING = ".bench.ts";

await runMain(async () => {
  const [name, ...rest] = process.argv.slice(2);
  const names = benchmarkNames();
  if (name === undefined || !names.includes(name)) {
    const problem =
      name === undefined ? "Which benchmark?" : `There is no benchmark ${JSON.stringify(name)}.`;
    throw new StepFailure(
      `${problem} npm run bench -- NAME [--json FILE], NAME one of: ${names.join(", ")}`,
    );
  }
  await setUp();
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  await runStep(
    "compile the benchmarks",
    process.execPath,
    [compiler, "-p", "tsconfig.bench.json"],
    { timeoutSeconds: 180 },
  );
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
