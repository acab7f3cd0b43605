import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { packageRoot } from "../../../src/worker-entry.ts";

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A child process with what it wrote; it must be awaited or ended before the test is over. */
export interface Child {
  readonly process: ChildProcess;
  readonly exit: Promise<Exit>;
  output(): string;
  errors(): string;
  /** Resolves to the first match of `pattern` in standard output; rejects when the child ends without. */
  printed(pattern: RegExp): Promise<RegExpExecArray>;
}

export function startChild(
  command: string,
  args: readonly string[],
  options: {
    readonly cwd?: string;
    readonly environment?: Readonly<Record<string, string>>;
  } = {},
): Child {
  const child = spawn(command, args, {
    cwd: options.cwd,
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...options.environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  // A test that fails half-way leaves nobody behind.
  const end = (): void => void child.kill("SIGKILL");
  process.once("exit", end);
  child.once("exit", () => process.off("exit", end));
  let [output, errors] = ["", ""];
  child.stdout.on("data", (data: Buffer) => (output += data.toString()));
  child.stderr.on("data", (data: Buffer) => (errors += data.toString()));
  const exit = new Promise<Exit>((resolve, reject) => {
    child.once("error", reject);
    // "close" and not "exit": then all that it wrote is here.
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
  return {
    process: child,
    exit,
    output: () => output,
    errors: () => errors,
    printed: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const match = pattern.exec(output);
          if (match !== null) resolve(match);
        };
        child.stdout.on("data", look);
        look();
        exit.then(() => reject(new Error(`ended without ${String(pattern)}: ${errors}`)), reject);
      }),
  };
}

/** `mooncake-kv` with these arguments. */
export function startCli(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Child {
  return startChild(process.execPath, [join(packageRoot(), "dist", "cli", "main.js"), ...args], {
    environment,
  });
}

/** `mooncake-kv serve` on a free port; resolves when it listens. */
export async function startServe(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<{ readonly child: Child; readonly url: string }> {
  const child = startCli(["serve", "--port", "0", "--log-level", "warn", ...args], environment);
  const [, url = ""] = await child.printed(/serves \S+ on (http:\S+)\n/);
  return { child, url };
}
