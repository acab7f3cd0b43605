/** The last batches of a publisher, for subscribers that have missed some. */
export class ReplayBuffer {
  readonly #payloads: (Uint8Array | undefined)[] = [];
  readonly #sequences: number[] = [];
  readonly #batchesMax: number;
  /** Batches added so far; number n lies at n modulo `batchesMax`. */
  #added = 0;

  constructor(batchesMax: number) {
    this.#batchesMax = batchesMax;
  }

  get size(): number {
    return Math.min(this.#added, this.#batchesMax);
  }

  /** Sequence numbers must rise; they may leave some out. */
  add(sequence: number, payload: Uint8Array): void {
    if (this.#batchesMax === 0) return;
    const at = this.#added++ % this.#batchesMax;
    this.#sequences[at] = sequence;
    this.#payloads[at] = payload;
  }

  /**
   * Batches from `start` on, of those that were there when the reading began. One that is overwritten while the reader takes its
   * time is left out.
   */
  *from(start: number): Generator<{ readonly sequence: number; readonly payload: Uint8Array }> {
    const end = this.#added;
    for (let index = end - this.size; index < end; index++) {
      if (index < this.#added - this.#batchesMax) continue;
      const at = index % this.#batchesMax;
      const sequence = this.#sequences[at];
      const payload = this.#payloads[at];
      if (sequence === undefined || payload === undefined || sequence < start) continue;
      yield { sequence, payload };
    }
  }
}
