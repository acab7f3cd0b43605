import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { ResetAnswer } from "../../../src/index.ts";
import { packageRoot } from "../../../src/worker-entry.ts";

export interface LoopRequest {
  /** Tokens and KV bytes follow from it. */
  readonly seed: number;
  /** Whole blocks of the prompt; one token follows. */
  readonly blocks: number;
  /** false: what the pool has is left there, and all is computed. */
  readonly reuse?: boolean;
}
export interface LoopAnswer {
  /** Tokens that the lookup found, and tokens that arrived. */
  readonly found: number;
  readonly kept: number;
  /** Of the blocks that arrived, those whose bytes are wrong. */
  readonly differing: number;
  readonly outcome: string;
}

export interface LoopFigures {
  readonly gauges: Readonly<Record<string, number>>;
  readonly counters: Readonly<Record<string, number>>;
}

/** Tokens of one block. */
export const LOOP_BLOCK = 16;
/** Bytes of one block of one layer. */
export const LOOP_LAYER_BYTES = 128 * 1024;

export interface LoopOptions {
  readonly storePath: string;
  readonly modelName?: string;
  readonly blockCount: number;
  readonly layers: number;
  readonly extra?: Readonly<Record<string, unknown>>;
  readonly environment?: Readonly<Record<string, string>>;
  /** What the process is started with: `ip netns exec NAME`. */
  readonly within?: readonly string[];
}

/** A serving loop in a process of its own (`pool-loop.mjs`), a member of the pool of a store's JSON. */
export class PoolLoop {
  readonly process;
  readonly #answers: AsyncIterator<string>;
  readonly #ended: Promise<number | null>;
  #onLoading = (): void => undefined;
  #log = "";

  private constructor(options: LoopOptions) {
    const { storePath, modelName = "org/model", blockCount, layers, extra = {} } = options;
    const script = join(packageRoot(), "test/integration/support/pool-loop.mjs");
    const argument = JSON.stringify({ modelName, blockCount, layers, extra });
    const [program, ...args] = [...(options.within ?? []), process.execPath, script, argument];
    this.process = spawn(program, args, {
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...process.env, MOONCAKE_CONFIG_PATH: storePath, ...options.environment },
    });
    this.process.stderr.setEncoding("utf8").on("data", (text: string) => (this.#log += text));
    // A loop that has ended tells by its silence, not by a broken pipe.
    this.process.stdin.on("error", () => undefined);
    this.#ended = new Promise((resolve) => this.process.once("close", resolve));
    this.#answers = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }

  static async start(options: LoopOptions): Promise<PoolLoop> {
    const loop = new PoolLoop(options);
    await loop.#next();
    return loop;
  }

  /** A whole request: what the pool has is loaded, the rest computed and saved. `onLoading`: its load begins. */
  request(request: LoopRequest, onLoading = (): void => undefined): Promise<LoopAnswer> {
    this.#onLoading = onLoading;
    return this.#ask({ do: "request", ...request });
  }
  /** Tokens of a prompt that the pool has. */
  find(request: LoopRequest): Promise<number> {
    return this.#ask({ do: "find", ...request });
  }
  /** Removes from the pool, by force of all models of the prefix. */
  reset(force: boolean): Promise<ResetAnswer> {
    return this.#ask({ do: "reset", force });
  }
  /** What is not zero, by the exposed name and labels. */
  figures(): Promise<LoopFigures> {
    return this.#ask({ do: "figures" });
  }
  /** Lines that it logged with this text. */
  logged(text: string): Readonly<Record<string, unknown>>[] {
    return this.#log
      .split("\n")
      .filter((line) => line.startsWith("{") && line.includes(JSON.stringify(text)))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  }
  get log(): string {
    return this.#log;
  }

  /** Orderly; resolves with the exit code, 0 when nothing was left in flight. */
  async stop(): Promise<number | null> {
    this.process.stdin.end();
    return await this.#ended;
  }
  async kill(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.#ended;
  }

  async #ask<Answer>(command: object): Promise<Answer> {
    this.process.stdin.write(`${JSON.stringify(command)}\n`);
    return (await this.#next()) as Answer;
  }
  async #next(): Promise<unknown> {
    for (;;) {
      const { value, done } = await this.#answers.next();
      if (done === true) throw new Error(`the loop has ended:\n${this.#log.slice(-3000)}`);
      const line = JSON.parse(value) as { answer?: unknown; event?: string };
      if (line.event !== "loading") return line.answer;
      this.#onLoading();
    }
  }
}
