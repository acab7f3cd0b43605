import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

export interface GuideShellOptions {
  readonly folder: string;
  /** Ports of the guide to those of this run. */
  readonly ports: ReadonlyMap<string, string>;
  readonly environment: Readonly<Record<string, string>>;
}

/** Generous: they end what hangs. */
const READY_TIMEOUT_MS = 90_000;
const RUN_TIMEOUT_MS = 90_000;
const STOP_TIMEOUT_MS = 20_000;
const PAUSE_MS = 250;

interface Job {
  readonly process: ChildProcess;
  /** All that it wrote, both streams. */
  output: string;
  readonly ended: Promise<number | null>;
}

/** Bash in one folder, as a user has it in several terminals. Each block is a process group of its own, ended by its id. */
export class GuideShell {
  readonly #options: GuideShellOptions;
  readonly #started: Job[] = [];

  constructor(options: GuideShellOptions) {
    this.#options = options;
  }

  /** The text with this run's ports. */
  local(text: string): string {
    return text.replaceAll(/\b\d{4,5}\b/g, (port) => this.#options.ports.get(port) ?? port);
  }

  running(): number {
    return this.#started.length;
  }

  /** Starts what goes on running; resolves when it has printed `prints`. */
  async start(text: string, prints: string, line: number): Promise<void> {
    const job = this.#spawn(this.local(text));
    this.#started.push(job);
    const waitsUntil = performance.now() + READY_TIMEOUT_MS;
    while (!job.output.includes(prints)) {
      if (job.process.exitCode !== null || performance.now() > waitsUntil)
        throw new Error(`line ${line}: never printed ${prints}:\n${job.output}`);
      await sleep(PAUSE_MS);
    }
  }

  /**
   * Runs what ends by itself, which must be with exit code 0. Where it has to print something that comes a little later (a save
   * goes on after its answer), it is run again, as a person would.
   */
  async run(text: string, prints: string | null, line: number): Promise<void> {
    const waitsUntil = performance.now() + RUN_TIMEOUT_MS;
    for (;;) {
      const { code, output } = await this.end(this.local(text));
      if (code === 0 && (prints === null || output.includes(prints))) return;
      if (code !== 0 || performance.now() > waitsUntil)
        throw new Error(`line ${line}: exit code ${code}, wanted ${prints ?? "0"}:\n${output}`);
      await sleep(PAUSE_MS);
    }
  }

  /** Runs it until it ends; kills it after a while. */
  async end(text: string): Promise<{ readonly code: number | null; readonly output: string }> {
    const job = this.#spawn(text);
    const timer = setTimeout(() => signal(job, "SIGKILL"), RUN_TIMEOUT_MS);
    const code = await job.ended;
    clearTimeout(timer);
    return { code, output: job.output };
  }

  /** Ends everything that was started, the last one first, as Ctrl-C would. */
  async stop(): Promise<void> {
    for (let job = this.#started.pop(); job !== undefined; job = this.#started.pop()) {
      const running = job;
      signal(running, "SIGINT");
      const timer = setTimeout(() => signal(running, "SIGKILL"), STOP_TIMEOUT_MS);
      await running.ended;
      clearTimeout(timer);
    }
  }

  #spawn(text: string): Job {
    const { folder, environment } = this.#options;
    const process = spawn("bash", ["-eu", "-o", "pipefail", "-c", text], {
      cwd: folder,
      env: environment,
      stdio: ["ignore", "pipe", "pipe"],
      detached: true,
    });
    const ended = new Promise<number | null>((resolve, reject) => {
      process.once("error", reject);
      process.once("close", resolve);
    });
    const job: Job = { process, output: "", ended };
    for (const stream of [process.stdout, process.stderr])
      stream.on("data", (data: Buffer) => (job.output += data.toString()));
    return job;
  }
}

/** To the whole group: bash, npx and what they started. */
function signal({ process: { pid } }: Job, name: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, name);
  } catch {
    // All of it has ended.
  }
}
