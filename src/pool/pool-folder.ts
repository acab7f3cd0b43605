/**
 * The folder of one development pool, and the lock in it that says whether the pool lives: keeper, master and owners hold it as long
 * as they run, by a descriptor that they inherit. A lock is seen from every PID namespace and container that has the folder; a
 * process number is not.
 */
import * as fs from "node:fs";
import { basename, join } from "node:path";
import { makeFolder } from "../config/file-kinds.ts";
import { fail, MooncakeKvError } from "../errors.ts";
import { loadNative } from "../native/load.ts";

const LOCK_NAME = "lock";
/** A file of this name with other content is not ours. */
const LOCK_TEXT = "held by the processes of a mooncake-kv pool\n";
const FOLDER_PATTERN = /^pool-[A-Za-z0-9]{6}$/;
/** Made by `pool start`, and nothing else is removed with it. */
const CONTENT: readonly string[] = ["pool.json", "store.json", "logs", "ssd", LOCK_NAME];

export interface PoolFolder {
  readonly path: string;
  /** Holds the lock; to be inherited by the pool's processes. */
  readonly lockDescriptor: number;
}

/** Makes a folder in `pools` whose lock this process holds until it ends. Throws INVALID_VALUE where no folder or no lock is to be had. */
export function makePoolFolder(pools: string): PoolFolder {
  try {
    return lockedFolder(pools);
  } catch (cause) {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "MOONCAKE_KV_STATE",
      value: pools,
      problem: `no pool can be recorded there: ${cause instanceof Error ? cause.message : String(cause)}`,
      remedy: "Name a folder of this user on a file system of this machine.",
      cause,
    });
  }
}

function lockedFolder(pools: string): PoolFolder {
  makeFolder(pools, 0o700);
  // Nobody sees it under its name before the lock is held.
  const draft = fs.mkdtempSync(join(pools, ".draft-"));
  const lockDescriptor = fs.openSync(join(draft, LOCK_NAME), "wx", 0o600);
  fs.writeSync(lockDescriptor, LOCK_TEXT);
  if (!loadNative().fileLock(lockDescriptor, false))
    fail("NOT_IDLE", "the pool's lock", draft, "is held by another process", "Try again.");
  const path = join(pools, basename(draft).replace(".draft", "pool"));
  fs.renameSync(draft, path);
  fs.mkdirSync(join(path, "logs"), { mode: 0o700 });
  return { path, lockDescriptor };
}

/** What a folder among the pools is. "foreign": nothing shows that `pool start` has made it; `problem` says what is missing. */
export type FolderState =
  | { readonly kind: "held" | "free" }
  | { readonly kind: "foreign"; readonly problem: string };

/** Follows no link, and takes for dead only what nobody holds. */
export function stateOfPoolFolder(path: string): FolderState {
  if (!FOLDER_PATTERN.test(basename(path)))
    return { kind: "foreign", problem: "its name is none that `pool start` gives" };
  if (!isOwn(fs.lstatSync(path), "directory"))
    return { kind: "foreign", problem: "it is no folder of this user" };
  let file: number;
  try {
    file = fs.openSync(
      join(path, LOCK_NAME),
      fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK,
    );
  } catch {
    return { kind: "foreign", problem: "it has no lock file" };
  }
  try {
    const found = fs.fstatSync(file);
    if (
      !isOwn(found, "file") ||
      found.size !== LOCK_TEXT.length ||
      fs.readFileSync(file, "utf8") !== LOCK_TEXT
    )
      return { kind: "foreign", problem: "its lock file is not one of a pool" };
    return { kind: isFree(file) ? "free" : "held" };
  } finally {
    fs.closeSync(file);
  }
}

/** Removes what `pool start` has put there. What else lies there stays, with the folder. */
export function removePoolFolder(path: string): void {
  for (const name of CONTENT) fs.rmSync(join(path, name), { recursive: true, force: true });
  try {
    fs.rmdirSync(path);
  } catch {
    // Something else is in it, or another command was faster.
  }
}

/** Whether the process has the pool's lock open: then it is one of the pool's. False too for processes that this one may not look into. */
export function holdsLock(path: string, pid: number): boolean {
  try {
    const lock = fs.lstatSync(join(path, LOCK_NAME));
    return fs.readdirSync(`/proc/${pid}/fd`).some((name) => {
      const open = fs.statSync(`/proc/${pid}/fd/${name}`, { throwIfNoEntry: false });
      return open?.ino === lock.ino && open.dev === lock.dev;
    });
  } catch {
    return false;
  }
}

/** A file that cannot be looked into counts as held. */
function isFree(file: number): boolean {
  try {
    // Shared, so that two who look do not take each other for the pool.
    return loadNative().fileLock(file, true);
  } catch (error) {
    if (error instanceof MooncakeKvError) return false;
    throw error;
  }
}

function isOwn(stats: fs.Stats, kind: "directory" | "file"): boolean {
  return (
    (kind === "file" ? stats.isFile() : stats.isDirectory()) && stats.uid === process.geteuid?.()
  );
}
