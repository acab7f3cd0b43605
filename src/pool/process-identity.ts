import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** A process and when it began, so that a pid that is used again is never taken for it. */
export interface ProcessIdentity {
  readonly name: string;
  readonly pid: number;
  /** Clock ticks after the machine's start. */
  readonly startTicks: number;
}

const POLL_MS = 50;

/** The identity of a running process, or null when there is none with this pid. */
export function identify(name: string, pid: number): ProcessIdentity | null {
  const startTicks = startTicksOf(pid);
  return startTicks === null ? null : { name, pid, startTicks };
}

export function isRunning(process: ProcessIdentity): boolean {
  return startTicksOf(process.pid) === process.startTicks;
}

/** Sends a signal to exactly this process; a process that is gone, or not ours to end, is left alone. */
export function signalProcess(target: ProcessIdentity, signal: NodeJS.Signals): void {
  if (!isRunning(target)) return;
  try {
    process.kill(target.pid, signal);
  } catch {
    // It has ended in this moment, or belongs to somebody else: whoever waits for its end sees that it lives on.
  }
}

/** Waits until all are gone; false after `timeoutMs`. */
export async function waitUntilGone(
  processes: readonly ProcessIdentity[],
  timeoutMs: number,
): Promise<boolean> {
  const deadlineMs = performance.now() + timeoutMs;
  while (processes.some(isRunning)) {
    if (performance.now() > deadlineMs) return false;
    await sleep(POLL_MS);
  }
  return true;
}

function startTicksOf(pid: number): number | null {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return null;
  }
  // The name in parentheses may hold anything, so counting starts behind its end: state is field 3, the start field 22.
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  // A zombie has ended; only its parent has not asked yet.
  return fields[0] === "Z" ? null : Number(fields[19]);
}
