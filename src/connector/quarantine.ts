import { brokenInvariant } from "../errors.ts";

/** Distinct blocks that only jobs of one kind without a request hold: an engine may still read or write them. */
export class Quarantine {
  readonly #holds: Int32Array;
  #blocks = 0;

  constructor(blockCount: number) {
    this.#holds = new Int32Array(blockCount);
  }

  get blocks(): number {
    return this.#blocks;
  }

  add(blockIds: Int32Array, count: number): void {
    for (let index = 0; index < count; index++) {
      const block = blockIds[index]!;
      const holds = this.#holds[block];
      if (holds === undefined) brokenInvariant("block id is not below blockCount", block);
      if (holds === 0) this.#blocks++;
      this.#holds[block] = holds + 1;
    }
  }
  remove(blockIds: Int32Array, count: number): void {
    for (let index = 0; index < count; index++) {
      const block = blockIds[index]!;
      const holds = this.#holds[block]! - 1;
      if (holds < 0) brokenInvariant("block leaves quarantine twice", block);
      if (holds === 0) this.#blocks--;
      this.#holds[block] = holds;
    }
  }
}
