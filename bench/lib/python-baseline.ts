/** A Python process with the packages that vLLM hashes with, which does on request what the addon does. */
import { execFileSync, spawn } from "node:child_process";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { packageRoot } from "../../src/worker-entry.ts";

const CBOR2 = "cbor2==6.3.0";

export interface BaselineRequest {
  readonly algorithm: string;
  readonly blockSize: number;
  /** Hex. */
  readonly parent: string;
  readonly tokens: readonly number[];
}
export interface BaselineAnswer {
  readonly nanoseconds: number;
  /** Digest of the last block, hex. */
  readonly last: string;
}

export class PythonBaseline {
  readonly version: string;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #lines: AsyncIterator<string>;

  /** Makes a virtual environment under .cache, once. */
  constructor() {
    const python = preparedPython();
    this.version = execFileSync(python, ["--version"], { encoding: "utf8" }).trim();
    const script = join(packageRoot(), "bench", "lib", "hash-baseline.py");
    this.#child = spawn(python, [script], { stdio: ["pipe", "pipe", "pipe"] });
    this.#child.stderr.pipe(process.stderr);
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  async ask(request: BaselineRequest): Promise<BaselineAnswer> {
    this.#child.stdin.write(`${JSON.stringify(request)}\n`);
    const line = await this.#lines.next();
    if (line.done === true) throw new Error("the Python process has ended; see its message above");
    return JSON.parse(line.value) as BaselineAnswer;
  }
  close(): void {
    this.#child.stdin.end();
  }
}

function preparedPython(): string {
  const folder = join(packageRoot(), ".cache", "hash-bench");
  const python = join(folder, "bin", "python");
  const ready = existsSync(python) && hasCbor2(python);
  if (ready) return python;
  console.log(`  installing ${CBOR2} into .cache/hash-bench`);
  execFileSync("python3", ["-m", "venv", folder], { stdio: "inherit" });
  execFileSync(python, ["-m", "pip", "install", "--quiet", CBOR2], { stdio: "inherit" });
  return python;
}

function hasCbor2(python: string): boolean {
  try {
    execFileSync(python, ["-c", "import cbor2"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
