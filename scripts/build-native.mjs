// Builds the addon: cmake configures and builds native/ in build/native, then the addon is copied to prebuilds/.
import { copyFileSync, mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { findProgram, root, runMain, runStep } from "./lib/steps.mjs";
import { nodeIncludeFolder } from "./lib/tools.mjs";

export function cmakeGenerator() {
  return findProgram("ninja") === null ? [] : ["-G", "Ninja"];
}

export async function buildNative() {
  const folder = join(root, "build", "native");
  await runStep(
    "configure the addon",
    "cmake",
    ["-S", "native", "-B", folder, "-DCMAKE_BUILD_TYPE=Release", `-DNODE_INCLUDE_DIR=${nodeIncludeFolder()}`, ...cmakeGenerator()],
    { timeoutSeconds: 120 },
  );
  await runStep("build the addon", "cmake", ["--build", folder, "--parallel", "2"], { timeoutSeconds: 600 });
  const target = join(root, "prebuilds", `linux-${process.arch}`);
  mkdirSync(target, { recursive: true });
  // A running process may have the old file mapped: write beside it and rename.
  const addon = join(target, "mooncake-kv.node");
  copyFileSync(join(folder, "mooncake-kv.node"), `${addon}.new`);
  renameSync(`${addon}.new`, addon);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await runMain(buildNative);
