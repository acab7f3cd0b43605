// Builds the addon and the program for engines in a child process: cmake in build/native, then copies in prebuilds/linux-<arch>.
import { createRequire } from "node:module";
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { cmakeBuild } from "./lib/cmake.mjs";
import { root, runMain, StepFailure } from "./lib/steps.mjs";
import { nodeIncludeFolder } from "./lib/tools.mjs";

const prebuilds = join(root, "prebuilds", `linux-${process.arch}`);
export const addonPath = join(prebuilds, "mooncake-kv.node");
export const engineProgramPath = join(prebuilds, "mooncake-kv-engine");

export async function buildNative() {
  const folder = join(root, "build", "native");
  await cmakeBuild("the addon", folder, {
    CMAKE_BUILD_TYPE: "Release",
    MOONCAKE_KV_ADDON: "ON",
    MOONCAKE_KV_TESTS: "OFF",
    NODE_INCLUDE_DIR: nodeIncludeFolder(),
    ...headerFolders(),
  });
  publish(join(folder, "mooncake-kv.node"), addonPath);
  publish(join(folder, "mooncake-kv-engine"), engineProgramPath);
}

/** Folders of napi.h and node_api.h, wherever npm has put the two packages. */
function headerFolders() {
  const load = createRequire(join(root, "package.json"));
  try {
    // node-addon-api answers relative to the current folder.
    return {
      NODE_ADDON_API_DIR: resolve(load("node-addon-api").include_dir),
      NODE_API_HEADERS_DIR: resolve(load("node-api-headers").include_dir),
    };
  } catch {
    throw new StepFailure(
      "node-addon-api or node-api-headers is not installed. Run `npm ci` (or `npm run setup`), then run this again.",
    );
  }
}

function publish(built, wanted) {
  if (existsSync(wanted) && readFileSync(wanted).equals(readFileSync(built))) return;
  mkdirSync(join(wanted, ".."), { recursive: true });
  // A running process may have the old file mapped: write beside it and rename.
  copyFileSync(built, `${wanted}.new`);
  renameSync(`${wanted}.new`, wanted);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await runMain(buildNative);
