/**
 * Up to where each request's blocks are known to be in the pool, by worker side: later saves of the request skip what is below
 * (vLLM's saved offset). Counts chunks, or tokens where saves are planned. Belongs to a life of the slot (REQUEST_LIFE): a new
 * request starts at 0, and so does one that was preempted, because its blocks may have left the pool meanwhile.
 */
export class SavedMarks {
  readonly #workers: number;
  readonly #end: Int32Array;
  readonly #life: Int32Array;
  /** By slot: the latest life of which a save was seen. */
  readonly #latest: Int32Array;

  constructor(requestSlots: number, workers: number) {
    this.#workers = workers;
    this.#end = new Int32Array(requestSlots * workers);
    this.#life = new Int32Array(requestSlots * workers);
    this.#latest = new Int32Array(requestSlots);
  }

  end(slot: number, life: number, worker: number): number {
    const at = slot * this.#workers + worker;
    return this.#life[at] === life ? this.#end[at]! : 0;
  }

  /** [from, to) is in the pool. Moves the mark only when nothing is missing below, and never for a life that is over. */
  saved(slot: number, life: number, worker: number, from: number, to: number): void {
    const known = this.end(slot, life, worker);
    if (!this.isLatest(slot, life) || from > known || to <= known) return;
    const at = slot * this.#workers + worker;
    this.#life[at] = life;
    this.#end[at] = to;
  }

  /** A save of this life has come. */
  seen(slot: number, life: number): void {
    if (this.isLatest(slot, life)) this.#latest[slot] = life;
  }
  /** No save of a later life of the slot has been seen. Lives are compared by difference: they wrap around. */
  isLatest(slot: number, life: number): boolean {
    return ((life - this.#latest[slot]!) | 0) >= 0;
  }
}
