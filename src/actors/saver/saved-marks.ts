/**
 * Up to which chunk each request's blocks are known to be in the pool, by worker side: later saves of the request skip what
 * is below (vLLM's saved offset). Belongs to a generation of the slot; a new request starts at 0.
 */
export class SavedMarks {
  readonly #workers: number;
  readonly #chunks: Int32Array;
  readonly #generation: Int32Array;

  constructor(requestSlots: number, workers: number) {
    this.#workers = workers;
    this.#chunks = new Int32Array(requestSlots * workers);
    this.#generation = new Int32Array(requestSlots * workers);
  }

  chunks(slot: number, generation: number, worker: number): number {
    const at = slot * this.#workers + worker;
    return this.#generation[at] === generation ? this.#chunks[at]! : 0;
  }

  /** Chunks [from, to) are in the pool. Moves the mark only when nothing is missing below. */
  saved(slot: number, generation: number, worker: number, from: number, to: number): void {
    const known = this.chunks(slot, generation, worker);
    if (from > known || to <= known) return;
    const at = slot * this.#workers + worker;
    this.#generation[at] = generation;
    this.#chunks[at] = to;
  }
}
