/** The wheel's own Python client in a process of its own: the rival of the pool benchmark. */
import { spawn } from "node:child_process";
import type { ChildProcessByStdio } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { packageRoot } from "../../src/worker-entry.ts";

export interface PoolRequest {
  readonly do: "put" | "get" | "exists" | "clear";
  readonly keys?: readonly string[];
  readonly segments?: number;
  readonly bytes?: number;
}
interface PoolAnswer {
  readonly nanoseconds: number;
  readonly good: boolean;
  readonly results: readonly number[];
}

export class PoolBaseline {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string>;

  private constructor(python: string, master: string, regionBytes: number) {
    const script = join(packageRoot(), "bench", "lib", "pool-baseline.py");
    this.#child = spawn(python, [script, master, String(regionBytes)], {
      stdio: ["pipe", "pipe", "ignore"],
    });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  static async start(python: string, master: string, regionBytes: number): Promise<PoolBaseline> {
    const baseline = new PoolBaseline(python, master, regionBytes);
    const { code } = (await baseline.#next()) as { code: number };
    if (code !== 0) throw new Error(`the Python client cannot join the pool: ${code}`);
    return baseline;
  }

  /** Nanoseconds of the call. Throws when a key failed. */
  async ask(request: PoolRequest): Promise<number> {
    this.#child.stdin.write(`${JSON.stringify(request)}\n`);
    const answer = (await this.#next()) as PoolAnswer;
    if (!answer.good)
      throw new Error(`the Python client's ${request.do} answers ${String(answer.results)}`);
    return answer.nanoseconds;
  }

  close(): void {
    this.#child.stdin.end();
  }

  async #next(): Promise<unknown> {
    const line = await this.#lines.next();
    if (line.done === true) throw new Error("the Python client has ended");
    return JSON.parse(line.value) as unknown;
  }
}
