// Makes a checkout ready: tools, npm packages, addon, dist. May be run again at any time; then it takes seconds.
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build } from "./build.mjs";
import { root, runMain, runStep } from "./lib/steps.mjs";
import { ensureTools } from "./lib/tools.mjs";

export async function setUp({ tests = false } = {}) {
  await ensureTools({ tests });
  if (packagesAreStale()) {
    await runStep("install npm packages", "npm", ["ci", "--no-audit", "--no-fund"], {
      timeoutSeconds: 600,
      env: { ONNXRUNTIME_NODE_INSTALL: "skip" },
    });
  }
  await build();
}

function packagesAreStale() {
  const installed = join(root, "node_modules", ".package-lock.json");
  if (!existsSync(installed)) return true;
  return statSync(installed).mtimeMs < statSync(join(root, "package-lock.json")).mtimeMs;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await runMain(() => setUp({ tests: true }));
