/**
 * Up to where each request's blocks are known to be in the pool, by worker side: later saves of the request skip what is below
 * (vLLM's saved offset). Counts chunks, or tokens where saves are planned. Belongs to a generation of the slot; a new request
 * starts at 0.
 */
export class SavedMarks {
  readonly #workers: number;
  readonly #end: Int32Array;
  readonly #generation: Int32Array;
  /** By slot: the latest generation of which a save was seen. */
  readonly #latest: Int32Array;

  constructor(requestSlots: number, workers: number) {
    this.#workers = workers;
    this.#end = new Int32Array(requestSlots * workers);
    this.#generation = new Int32Array(requestSlots * workers);
    this.#latest = new Int32Array(requestSlots);
  }

  end(slot: number, generation: number, worker: number): number {
    const at = slot * this.#workers + worker;
    return this.#generation[at] === generation ? this.#end[at]! : 0;
  }

  /** [from, to) is in the pool. Moves the mark only when nothing is missing below. */
  saved(slot: number, generation: number, worker: number, from: number, to: number): void {
    const known = this.end(slot, generation, worker);
    if (from > known || to <= known) return;
    const at = slot * this.#workers + worker;
    this.#generation[at] = generation;
    this.#end[at] = to;
  }

  /** A save of the request has come. */
  seen(slot: number, generation: number): void {
    if (this.isLatest(slot, generation)) this.#latest[slot] = generation;
  }
  /** No save of a later request in the slot has been seen. Generations are compared by difference: they wrap around. */
  isLatest(slot: number, generation: number): boolean {
    return ((generation - this.#latest[slot]!) | 0) >= 0;
  }
}
