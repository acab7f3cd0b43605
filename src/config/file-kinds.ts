import {
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  closeSync,
  statSync,
  type Stats,
} from "node:fs";
import { dirname, resolve } from "node:path";

/** What a path leads to, in words: "a file", "a directory", "a FIFO". */
export function kindOfFile(stats: Stats): string {
  if (stats.isFile()) return "a file";
  if (stats.isDirectory()) return "a directory";
  if (stats.isFIFO()) return "a FIFO";
  if (stats.isSocket()) return "a socket";
  if (stats.isCharacterDevice()) return "a character device";
  return stats.isBlockDevice() ? "a block device" : "no regular file";
}

/** What stands at a path; null where nothing does, or nothing that this process may see. */
export function kindAt(path: string): string | null {
  try {
    return kindOfFile(statSync(path));
  } catch {
    return null;
  }
}

/** Something else than a regular file or directory stood where one was asked for. */
export class WrongFileKind extends Error {
  override readonly name = "WrongFileKind";
  constructor(kind: string, wanted: string) {
    super(`this is ${kind}, not ${wanted}`);
  }
}

/**
 * Opens a regular file for reading; anything else is refused without waiting for it: opening a FIFO waits for its other end, and
 * a device may do something. Throws WrongFileKind and what the file system says. The caller closes.
 */
export function openRegularFile(path: string): number {
  refuseOtherKinds(statSync(path));
  // Should it be replaced meanwhile, the opening does not wait either.
  return checked(openSync(path, constants.O_RDONLY | constants.O_NONBLOCK));
}

/** Makes or empties a regular file, as openRegularFile does. */
export function emptyRegularFile(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found !== undefined) refuseOtherKinds(found);
  const { O_WRONLY, O_CREAT, O_NONBLOCK } = constants;
  const descriptor = checked(openSync(path, O_WRONLY | O_CREAT | O_NONBLOCK, 0o666));
  closeSync(descriptor);
  // Emptied only once it is known what it is.
  closeSync(openSync(path, "w"));
}

function checked(descriptor: number): number {
  try {
    refuseOtherKinds(fstatSync(descriptor));
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
  return descriptor;
}

function refuseOtherKinds(stats: Stats): void {
  if (!stats.isFile()) throw new WrongFileKind(kindOfFile(stats), "a file");
}

/**
 * Makes a folder with those above it, as mkdir -p does. Node's own way tries for ever where a file system says of a folder that
 * is there that it is not (below /proc). Throws WrongFileKind and what the file system says.
 */
export function makeFolder(path: string, mode = 0o777): void {
  const missing: string[] = [];
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    const found = statSync(folder, { throwIfNoEntry: false });
    if (found?.isDirectory() === true) break;
    if (found !== undefined) throw new WrongFileKind(`${folder}, ${kindOfFile(found)}`, "a folder");
    if (dirname(folder) === folder) break;
    missing.push(folder);
  }
  for (const folder of missing.toReversed()) makeOne(folder, mode);
}

function makeOne(folder: string, mode: number): void {
  try {
    mkdirSync(folder, { mode });
  } catch (error) {
    // Another process was faster.
    if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) throw error;
  }
}
