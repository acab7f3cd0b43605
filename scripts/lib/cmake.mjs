import { existsSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { join } from "node:path";
import { findProgram, root, runStep } from "./steps.mjs";

/**
 * Configures and builds native/ in `folder`; cmake itself skips what is up to date. Resolves like
 * runStep: with the step that failed (`allowFailure`), or with the build.
 */
export async function cmakeBuild(title, folder, definitions, { allowFailure = false } = {}) {
  forgetForeignCache(folder);
  const settings = Object.entries(definitions).map(([name, value]) => `-D${name}=${value}`);
  const run = (verb, args) => runStep(`${verb} ${title}`, "cmake", args, { allowFailure });
  const source = join(root, "native");
  const configured = await run("configure", [
    "-S",
    source,
    "-B",
    folder,
    ...generator(folder),
    ...settings,
  ]);
  if (configured.code !== 0) return configured;
  return run("build", ["--build", folder, "--parallel", "2"]);
}

/** A build folder keeps the generator that it was made with, else cmake refuses it. */
function generator(folder) {
  if (existsSync(join(folder, "CMakeCache.txt"))) return [];
  return findProgram("ninja") === null ? [] : ["-G", "Ninja"];
}

/** cmake refuses a build folder that was made for another place: the checkout was moved or copied, so it starts anew. */
function forgetForeignCache(folder) {
  const cache = join(folder, "CMakeCache.txt");
  if (!existsSync(cache)) return;
  const source = /^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$/m.exec(readFileSync(cache, "utf8"))?.[1];
  if (source === undefined || source !== realpathSync(join(root, "native")))
    rmSync(folder, { recursive: true, force: true });
}
