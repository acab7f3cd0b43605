// `npm run demo`: sets the checkout up and runs the demonstration with the arguments after `--`.
import { spawn } from "node:child_process";
import { join } from "node:path";
import { root, runMain } from "./lib/steps.mjs";
import { setUp } from "./setup.mjs";

await runMain(async () => {
  await setUp();
  const child = spawn(process.execPath, [join(root, "dist", "cli", "demo.js"), ...process.argv.slice(2)], { stdio: "inherit" });
  process.exitCode = await new Promise((resolve) => child.on("close", (code) => resolve(code ?? 1)));
});
