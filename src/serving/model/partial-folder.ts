import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";

const MARK = ".partial-";
/** Nothing that is still being made is older. */
const STALE_MS = 2 * 60 * 60 * 1000;

/** Makes a folder beside `target` to work in; rename it to `target` when everything is in it. */
export function makePartialFolder(target: string): string {
  return mkdtempSync(`${target}${MARK}`);
}

/** Removes what processes that died left behind in `parent`. */
export function removeStalePartials(parent: string): void {
  for (const name of readdirSync(parent)) {
    if (!name.includes(MARK)) continue;
    const path = join(parent, name);
    const status = statSync(path, { throwIfNoEntry: false });
    if (status !== undefined && Date.now() - status.mtimeMs > STALE_MS)
      rmSync(path, { recursive: true, force: true });
  }
}
