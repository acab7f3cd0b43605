import { closeSync, ftruncateSync, openSync, writeSync } from "node:fs";

const RING_BYTES_MAX = 64 * 1024;
const FILE_BYTES_MAX = 8 * 1024 * 1024;

/**
 * What a process has written, bounded: the last 64 KiB in memory, and a file that begins again at 8 MiB.
 *
 * Mooncake's processes write a line of metrics every few seconds for as long as they run, so a plain file would grow for ever.
 */
export class OutputLog {
  #chunks: Buffer[] = [];
  #bytes = 0;
  #fileBytes = 0;
  #file: number | null;

  /** `path` null: memory only. Throws what the file system throws. */
  constructor(path: string | null) {
    this.#file = path === null ? null : openSync(path, "w", 0o600);
  }

  append(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    while (this.#chunks.length > 1 && this.#bytes - (this.#chunks[0]?.length ?? 0) > RING_BYTES_MAX)
      this.#bytes -= this.#chunks.shift()?.length ?? 0;
    this.#write(chunk);
  }

  /** The last `lines` whole lines. */
  tail(lines: number): string {
    const text = Buffer.concat(this.#chunks).toString("utf8").trimEnd();
    return text === "" ? "" : text.split("\n").slice(-lines).join("\n");
  }

  includes(text: string): boolean {
    return Buffer.concat(this.#chunks).includes(text);
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }

  #write(chunk: Buffer): void {
    if (this.#file === null) return;
    try {
      if (this.#fileBytes + chunk.length > FILE_BYTES_MAX) {
        ftruncateSync(this.#file, 0);
        this.#fileBytes = 0;
      }
      this.#fileBytes += writeSync(this.#file, chunk, 0, chunk.length, this.#fileBytes);
    } catch {
      // A full disk must not stop the pool: the end of the output stays in memory.
      this.close();
    }
  }
}
