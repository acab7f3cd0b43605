/** How many files and sockets this process may have open (`ulimit -n`), and how many it takes. Imports nothing of ours: see cli/main.ts. */
import { readFileSync } from "node:fs";

/** Below this a command cannot even load its modules. */
export const OPEN_FILES_LOADING = 128;
/** Threads, wake pipes, modules of six threads and a few connections of a runtime. */
export const OPEN_FILES_RUNTIME = 256;
/** With the connections of a busy server, or of an engine to many owners. */
export const OPEN_FILES_BUSY = 1024;

/** What mends too low a limit. */
export const OPEN_FILES_REMEDY =
  "ulimit -n 65536   # for good: nofile in /etc/security/limits.conf, LimitNOFILE= of a systemd unit, --ulimit nofile= of a container";

/** The soft limit; null: unlimited, or not known. */
export function openFilesMax(limits: string = readLimits()): number | null {
  const soft = /^Max open files\s+(\S+)/m.exec(limits)?.[1];
  return soft === undefined || soft === "unlimited" ? null : Number(soft);
}

/** The problem and its remedy in one line, or null where the limit is high enough. */
export function openFilesProblem(
  least: number,
  most: number | null = openFilesMax(),
): string | null {
  if (most === null || most >= least) return null;
  return `open files: ${most} may be open at a time, and at least ${least} are needed. Raise the limit: ${OPEN_FILES_REMEDY}`;
}

function readLimits(): string {
  try {
    return readFileSync("/proc/self/limits", "utf8");
  } catch {
    return "";
  }
}
