// `npm run bench -- NAME [--json FILE]`: sets the checkout up, compiles bench/ and runs one suite.
import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { root, runMain, runStep, StepFailure } from "./lib/steps.mjs";
import { setUp } from "./setup.mjs";

await runMain(async () => {
  const [name, ...rest] = process.argv.slice(2);
  const names = readdirSync(join(root, "bench"))
    .filter((file) => file.endsWith(".bench.ts"))
    .map((file) => file.replace(".bench.ts", ""));
  if (name === undefined || !names.includes(name)) {
    throw new StepFailure(`Which benchmark? npm run bench -- NAME [--json FILE], NAME one of: ${names.join(", ")}`);
  }
  await setUp();
  await runStep("compile benchmarks", process.execPath, [join(root, "node_modules", "typescript", "bin", "tsc"), "-p", "tsconfig.bench.json"], {
    timeoutSeconds: 120,
  });
  const script = join(root, "build", "bench", "bench", `${name}.bench.js`);
  const child = spawn(process.execPath, ["--expose-gc", script, ...rest], { stdio: "inherit", cwd: root });
  process.exitCode = await new Promise((resolve) => child.on("close", (code) => resolve(code ?? 1)));
});
