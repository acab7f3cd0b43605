import { createWriteStream, type WriteStream } from "node:fs";
import type { Log } from "../../step.ts";
import type { RecordedStep, RecordingEnd, RecordingHeader } from "./format.ts";

/** What may wait for the disk. */
const PENDING_BYTES_MAX = 64 * 1024 * 1024;

/**
 * The file of a recording. Writing never waits: when the disk is too slow or fails, the recording stops there, and its end line
 * says how many steps are missing. Belongs to the recorded actor's thread; needs turns of its event loop.
 */
export class RecordingFile {
  readonly #stream: WriteStream;
  readonly #log: Log;
  readonly #path: string;
  readonly #pendingBytesMax: number;
  #steps = 0;
  #stepsLost = 0;
  #failed = false;

  constructor(path: string, log: Log, pendingBytesMax: number = PENDING_BYTES_MAX) {
    this.#path = path;
    this.#log = log;
    this.#pendingBytesMax = pendingBytesMax;
    this.#stream = createWriteStream(path);
    this.#stream.on("error", (error) => {
      this.#failed = true;
      this.#incomplete(error.message);
    });
  }

  header(header: RecordingHeader): void {
    this.#stream.write(`${JSON.stringify(header)}\n`);
  }

  step(step: RecordedStep): void {
    if (this.#stepsLost > 0 || this.#failed) {
      this.#stepsLost++;
      return;
    }
    if (this.#stream.writableLength > this.#pendingBytesMax) {
      this.#stepsLost++;
      this.#incomplete("the disk is too slow");
      return;
    }
    this.#steps++;
    this.#stream.write(`${JSON.stringify(step)}\n`);
  }

  /** The actor has stopped: nothing is recorded any more. Resolves when the file is written, or cannot be. */
  end(): Promise<void> {
    const line: RecordingEnd = { end: true, steps: this.#steps, stepsLost: this.#stepsLost };
    return new Promise((resolve) => {
      this.#stream.once("close", resolve);
      if (this.#stream.closed) resolve();
      else this.#stream.end(`${JSON.stringify(line)}\n`);
    });
  }

  #incomplete(reason: string): void {
    this.#log.warn({ path: this.#path, steps: this.#steps, reason }, "recording is incomplete");
  }
}
