import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { isMainThread } from "node:worker_threads";

import { MooncakeKvError } from "../errors.ts";
import { packageRoot } from "../worker-entry.ts";
import type { NativeBinding } from "./binding.ts";

let loaded: NativeBinding | undefined;

/** Where the addon may lie, the wanted place first: made by the build script, or built by hand with CMake. */
export function addonPaths(root: string = packageRoot()): string[] {
  return [
    join(root, "prebuilds", `linux-${process.arch}`, "mooncake-kv.node"),
    join(root, "build", "native", "mooncake-kv.node"),
  ];
}

/** The program that runs an engine in a process of its own; it is made with the addon and lies beside it. */
export function engineProgramPaths(root: string = packageRoot()): string[] {
  return addonPaths(root).map((addon) => join(addon, "..", "mooncake-kv-engine"));
}

/** The first that exists. Throws NATIVE_MISSING. */
export function engineProgram(paths: readonly string[] = engineProgramPaths()): string {
  const path = paths.find((candidate) => existsSync(candidate));
  if (path !== undefined) return path;
  throw new MooncakeKvError({
    code: "NATIVE_MISSING",
    field: "mooncake-kv-engine",
    value: paths[0],
    problem: "the program that runs an engine in a process of its own has not been built",
    remedy: `Run \`npm run build:native\` in ${packageRoot()}, or set "engine_process" to "in_process".`,
  });
}

/**
 * The addon, loaded once a thread. Every thread may load it; ids that its functions return are process-wide.
 *
 * The addon throws MooncakeKvErrors itself (an Error with the brand, code, field and remedy), so nothing wraps the calls.
 * Throws NATIVE_MISSING when the addon was not built or does not load.
 */
export function loadNative(): NativeBinding {
  if (loaded !== undefined) return loaded;
  const native = (loaded = loadFrom(addonPaths()));
  // The process ends with the main thread only. Whatever the wheel registers until then, this comes before it.
  if (isMainThread) process.once("exit", () => native.wheelHookExit());
  return native;
}

/** Loads the first of `paths` that exists. */
export function loadFrom(paths: readonly string[]): NativeBinding {
  const path = paths.find((candidate) => existsSync(candidate));
  if (path === undefined) {
    throw new MooncakeKvError({
      code: "NATIVE_MISSING",
      field: "mooncake-kv.node",
      value: paths[0],
      problem: "the native addon has not been built",
      remedy: `Run \`npm run build:native\` in ${packageRoot()} (it needs g++ and cmake: \`apt-get install g++ cmake\`).`,
    });
  }
  const nodeRequire = createRequire(import.meta.url);
  try {
    return nodeRequire(path) as NativeBinding;
  } catch (cause) {
    throw new MooncakeKvError({
      code: "NATIVE_MISSING",
      field: "mooncake-kv.node",
      value: path,
      problem: `the native addon does not load: ${cause instanceof Error ? cause.message : String(cause)}`,
      remedy: `Build it on this machine with \`npm run build:native\` in ${packageRoot()}, with Node 20.3 or newer.`,
      cause,
    });
  }
}
