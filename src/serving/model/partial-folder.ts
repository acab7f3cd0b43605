import { lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { makeFolder } from "../../config/file-kinds.ts";
import { MooncakeKvError } from "../../errors.ts";

const MARK = ".partial-";
/** As mkdtemp makes it: other files of the folder are not ours. */
const NAME_PATTERN = /.\.partial-[A-Za-z0-9]{6}$/;
/** Nothing that is still being made is older. */
const STALE_MS = 2 * 60 * 60 * 1000;

/** Makes the folder of downloads or conversions. Throws INVALID_VALUE where none can be made. */
export function makeCacheFolder(folder: string): void {
  try {
    makeFolder(folder);
  } catch (cause) {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "cache",
      value: folder,
      problem: `the model cache cannot be made there: ${cause instanceof Error ? cause.message : String(cause)}`,
      remedy: "Give another folder with --cache, on a disk with room that this user may write to.",
      cause,
    });
  }
}

/** Makes a folder beside `target` to work in; rename it to `target` when everything is in it. */
export function makePartialFolder(target: string): string {
  return mkdtempSync(`${target}${MARK}`);
}

/** Removes what processes that died left behind in `parent`. */
export function removeStalePartials(parent: string): void {
  for (const name of readdirSync(parent)) {
    if (!NAME_PATTERN.test(name)) continue;
    const path = join(parent, name);
    const status = lstatSync(path, { throwIfNoEntry: false });
    if (status?.isDirectory() === true && Date.now() - status.mtimeMs > STALE_MS)
      rmSync(path, { recursive: true, force: true });
  }
}
