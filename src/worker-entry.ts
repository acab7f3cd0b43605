import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** Folder of the package: the nearest one above this file that holds package.json. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  return folder;
}

/**
 * URL of a compiled module for `new Worker(...)`.
 *
 * Workers always run compiled files from dist, also when the caller itself runs from src (under a test runner), because
 * Node 20 cannot start a worker from TypeScript. `path` is relative to src, with the ending `.js`.
 */
export function workerEntry(path: string): URL {
  return pathToFileURL(join(packageRoot(), "dist", path));
}
