import { Buffer } from "node:buffer";
import type { TableBuffers } from "../../../blocks/tables.ts";
import type { TableChanges } from "./format.ts";

/** Shared memory that steps read and write, in the order of the numbers in a recording. */
export const TABLE_NAMES = [
  "requests",
  "jobs",
  "blockPages",
  "tokenPages",
  "hashPages",
  "steps",
  "logprobs",
] as const satisfies readonly Exclude<keyof TableBuffers, "dimensions">[];

export const TABLE_HASHES = 4;

const PIECE_BYTES = 4096;

/**
 * A private copy of the shared tables, to find out what changed. Reading races with other threads' writes; what a step reads
 * was published by messages that were taken before, so it is whole by then, and what is half written is not read.
 *
 * Finding changes costs a comparison of all tables (3.6 ms for 24 MB): for recordings only.
 */
export class TableShadow {
  readonly #tables: readonly Uint8Array[];
  readonly #shadow: readonly Uint8Array[];
  readonly #piece = Buffer.alloc(PIECE_BYTES);

  constructor(buffers: TableBuffers) {
    this.#tables = TABLE_NAMES.map((name) => new Uint8Array(buffers[name]));
    this.#shadow = this.#tables.map(({ length }) => new Uint8Array(length));
  }

  /** Changes of all tables since they were last asked for. */
  changes(): TableChanges {
    const runs: number[][] = [];
    for (let table = 0; table < TABLE_NAMES.length; table++) this.#collect(table, runs);
    return runs;
  }
  changesOf(table: number): TableChanges {
    const runs: number[][] = [];
    this.#collect(table, runs);
    return runs;
  }

  #collect(table: number, runs: number[][]): void {
    const [live, shadow] = [this.#tables[table]!, this.#shadow[table]!];
    for (let from = 0; from < live.length; from += PIECE_BYTES) {
      const bytes = Math.min(PIECE_BYTES, live.length - from);
      // Copied first: what is compared and what is recorded must be the same bytes, whoever writes meanwhile.
      this.#piece.set(live.subarray(from, from + bytes));
      const piece = this.#piece.subarray(0, bytes);
      if (piece.equals(shadow.subarray(from, from + bytes))) continue;
      this.#compare(table, from, piece, shadow, runs);
      shadow.set(piece, from);
    }
  }

  #compare(table: number, from: number, piece: Buffer, shadow: Uint8Array, runs: number[][]): void {
    const words = piece.length / 4;
    const now = new Int32Array(piece.buffer, piece.byteOffset, words);
    const before = new Int32Array(shadow.buffer, from, words);
    let run: number[] | undefined;
    for (let word = 0; word < words; word++) {
      if (now[word] === before[word]) {
        run = undefined;
        continue;
      }
      if (run === undefined) {
        run = [table, from / 4 + word];
        runs.push(run);
      }
      run.push(now[word]!);
    }
  }
}

/** Writes recorded changes into tables. */
export function applyChanges(buffers: TableBuffers, changes: TableChanges): void {
  for (const [table = 0, first = 0, ...words] of changes)
    new Int32Array(buffers[TABLE_NAMES[table]!]).set(words, first);
}
