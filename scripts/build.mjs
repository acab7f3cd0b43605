// Builds everything: the addon and TypeScript (dist/).
import { chmodSync, existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { buildNative } from "./build-native.mjs";
import { root, runMain, runStep } from "./lib/steps.mjs";

const OUTPUT_ENDINGS = [".js", ".js.map", ".d.ts"];

export async function buildTypeScript() {
  matchDistToSources();
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  await runStep("compile TypeScript", process.execPath, [compiler, "-p", "."]);
  const command = join(root, "dist", "cli", "main.js");
  if (existsSync(command)) chmodSync(command, 0o755);
}

/**
 * tsc never removes the output of a source file that is gone, and takes its own notes for the truth when an output was
 * deleted. So: remove what has no source, and forget the notes when anything is missing.
 */
function matchDistToSources() {
  const sources = filesUnder("src").filter((path) => path.endsWith(".ts"));
  const wanted = new Set(
    sources.flatMap((path) => OUTPUT_ENDINGS.map((ending) => path.replace(/\.ts$/, ending))),
  );
  const present = new Set(filesUnder("dist"));
  for (const path of present) {
    const compiled = OUTPUT_ENDINGS.some((ending) => path.endsWith(ending));
    if (compiled && !wanted.has(path)) rmSync(join(root, "dist", path));
  }
  const complete = [...wanted].every((path) => present.has(path));
  if (!complete) rmSync(join(root, "build", "tsbuildinfo"), { force: true });
}

function filesUnder(folder) {
  if (!existsSync(join(root, folder))) return [];
  const entries = readdirSync(join(root, folder), { recursive: true, withFileTypes: true });
  const from = join(root, folder).length + 1;
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name).slice(from));
}

export async function build() {
  await buildNative();
  await buildTypeScript();
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await runMain(build);
