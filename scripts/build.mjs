// Builds everything: the addon and TypeScript (dist/).
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { buildNative } from "./build-native.mjs";
import { root, runMain, runStep } from "./lib/steps.mjs";

export async function buildTypeScript() {
  await runStep("compile TypeScript", process.execPath, [join(root, "node_modules", "typescript", "bin", "tsc"), "-p", "."], {
    timeoutSeconds: 180,
  });
  chmodSync(join(root, "dist", "cli", "main.js"), 0o755);
}

export async function build() {
  await buildNative();
  await buildTypeScript();
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await runMain(build);
