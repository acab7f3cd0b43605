// Builds the addon: cmake in build/native, then a copy in prebuilds/linux-<arch>/mooncake-kv.node.
import { createRequire } from "node:module";
import { copyFileSync, existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { cmakeBuild } from "./lib/cmake.mjs";
import { root, runMain, StepFailure } from "./lib/steps.mjs";
import { nodeIncludeFolder } from "./lib/tools.mjs";

export const addonPath = join(root, "prebuilds", `linux-${process.arch}`, "mooncake-kv.node");

export async function buildNative() {
  const folder = join(root, "build", "native");
  await cmakeBuild(
    "the addon",
    folder,
    {
      CMAKE_BUILD_TYPE: "Release",
      MOONCAKE_KV_ADDON: "ON",
      MOONCAKE_KV_TESTS: "OFF",
      NODE_INCLUDE_DIR: nodeIncludeFolder(),
      ...headerFolders(),
    },
    { timeoutSeconds: 600 },
  );
  publish(join(folder, "mooncake-kv.node"));
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

function publish(built) {
  if (existsSync(addonPath) && readFileSync(addonPath).equals(readFileSync(built))) return;
  mkdirSync(join(addonPath, ".."), { recursive: true });
  // A running process may have the old file mapped: write beside it and rename.
  copyFileSync(built, `${addonPath}.new`);
  renameSync(`${addonPath}.new`, addonPath);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await runMain(buildNative);
