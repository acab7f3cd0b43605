import { readdirSync, readFileSync } from "node:fs";
import { expect } from "vitest";

/** As the kernel cuts the program's name. */
const PROGRAM = "mooncake-kv-engine".slice(0, 15);

interface Process {
  readonly pid: number;
  readonly program: string;
  readonly state: string;
  readonly parent: number;
}

function processes(): Process[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, "utf8");
        const end = stat.lastIndexOf(")");
        const [state = "", parent = ""] = stat.slice(end + 2).split(" ");
        const program = stat.slice(stat.indexOf("(") + 1, end);
        return [{ pid: Number(name), program, state, parent: Number(parent) }];
      } catch {
        // It has ended since.
        return [];
      }
    });
}

/** The living engine processes that a process has started. */
export function engineChildren(parent: number = process.pid): number[] {
  return processes()
    .filter((one) => one.parent === parent && one.program === PROGRAM && one.state !== "Z")
    .map(({ pid }) => pid);
}

/** Whether a process is there and not only waiting to be noticed. */
export function isRunning(pid: number): boolean {
  return processes().some((one) => one.pid === pid && one.state !== "Z");
}

/** Waits for the one engine process, which must be another than `before`. */
export async function engineChild(before = 0, parent: number = process.pid): Promise<number> {
  const others = (): number[] => engineChildren(parent).filter((pid) => pid !== before);
  await expect.poll(() => others().length, { timeout: 120_000, interval: 5 }).toBe(1);
  const [pid = 0] = others();
  return pid;
}
