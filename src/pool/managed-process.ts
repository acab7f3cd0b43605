import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { MooncakeKvError } from "../errors.ts";
import { OutputLog } from "./output-log.ts";

export interface ProcessOptions {
  /** What it is, for people: "master", "owner 1". */
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** File for its output; null: memory only. */
  readonly logPath: string | null;
  /** An open file that it is to hold as long as it runs. */
  readonly heldDescriptor?: number | undefined;
}

export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

const TAIL_LINES = 20;
/** The master stops its threads for a second after SIGTERM. */
const STOP_TIMEOUT_MS = 8_000;

const running = new Set<ChildProcess>();

/** A keeper that ends without stopping its pool (a broken test, an exception) leaves nobody behind. */
function killRunning(): void {
  for (const child of running) child.kill("SIGKILL");
}

/** One child process whose output is kept and whose end is never missed. Killed by its own pid only. */
export class ManagedProcess {
  readonly name: string;
  readonly pid: number;
  readonly output: OutputLog;
  /** Resolves when it has ended, however it ends. */
  readonly ended: Promise<ProcessEnd>;
  readonly #child: ChildProcess;
  #end: ProcessEnd | null = null;

  private constructor(options: ProcessOptions, child: ChildProcess, output: OutputLog) {
    this.name = options.name;
    this.pid = child.pid ?? 0;
    this.output = output;
    this.#child = child;
    if (running.size === 0) process.on("exit", killRunning);
    running.add(child);
    this.ended = new Promise((resolve) => {
      child.once("close", (code, signal) => {
        running.delete(child);
        if (running.size === 0) process.off("exit", killRunning);
        this.#end = { code, signal };
        output.close();
        resolve(this.#end);
      });
    });
    // A signal that cannot be sent is told as an error; the end of the process is what counts.
    child.on("error", () => undefined);
  }

  /** Starts it. Throws MISSING when the program cannot be run. */
  static async start(options: ProcessOptions): Promise<ManagedProcess> {
    const output = new OutputLog(options.logPath);
    const child = spawn(options.program, options.args, {
      env: { ...process.env, ...options.environment },
      stdio: [
        "ignore",
        "pipe",
        "pipe",
        ...(options.heldDescriptor === undefined ? [] : [options.heldDescriptor]),
      ],
      // A group of its own: Ctrl-C in the terminal reaches the pool's keeper only, which stops its processes in order.
      detached: true,
    });
    child.stdout?.on("data", (chunk: Buffer) => output.append(chunk));
    child.stderr?.on("data", (chunk: Buffer) => output.append(chunk));
    try {
      await once(child, "spawn");
    } catch (cause) {
      output.close();
      throw new MooncakeKvError({
        code: "MISSING",
        field: options.name,
        value: options.program,
        problem: `the program does not start: ${cause instanceof Error ? cause.message : String(cause)}`,
        remedy: "Run `mooncake-kv doctor`, which checks the Mooncake wheel and its libraries.",
        cause,
      });
    }
    return new ManagedProcess(options, child, output);
  }

  /** How it ended, or null while it runs. */
  get end(): ProcessEnd | null {
    return this.#end;
  }

  /**
   * Asks `ready` again and again until it says true. Throws CLOSED when the process ends before, TIMEOUT after `timeoutMs`;
   * both with the last lines of its output. `ready` may not throw and must have a deadline of its own.
   */
  async waitUntilReady(
    ready: () => Promise<boolean>,
    timeoutMs: number,
    remedy: string,
  ): Promise<void> {
    const deadlineMs = performance.now() + timeoutMs;
    for (let pauseMs = 20; ; pauseMs = Math.min(pauseMs * 2, 250)) {
      if (this.#end !== null)
        this.#fail("CLOSED", `ended while starting (${describe(this.#end)})`, remedy);
      if (await ready()) return;
      if (performance.now() > deadlineMs)
        this.#fail("TIMEOUT", `was not ready after ${timeoutMs} ms`, remedy);
      await Promise.race([sleep(pauseMs), this.ended]);
    }
  }

  /** SIGTERM, and SIGKILL when it has not ended after `timeoutMs`. Resolves when it is gone; may be called again. */
  async stop(timeoutMs: number = STOP_TIMEOUT_MS): Promise<ProcessEnd> {
    this.kill("SIGTERM");
    const stopped = new AbortController();
    const late = sleep(timeoutMs, undefined, { signal: stopped.signal }).then(
      () => this.kill("SIGKILL"),
      () => undefined,
    );
    const end = await this.ended;
    stopped.abort();
    await late;
    return end;
  }

  /** Sends a signal to this process, if it still runs. */
  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  #fail(code: "CLOSED" | "TIMEOUT", problem: string, remedy: string): never {
    const tail = this.output.tail(TAIL_LINES);
    throw new MooncakeKvError({
      code,
      field: this.name,
      problem,
      remedy: tail === "" ? remedy : `${remedy} It wrote last:\n${tail}`,
    });
  }
}

/** How a process ended, in words. */
export function describe(end: ProcessEnd): string {
  return end.signal === null ? `exit code ${end.code}` : `signal ${end.signal}`;
}
