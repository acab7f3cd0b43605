import { JOB_LIVE_WORD, NONE } from "../blocks/layout.ts";
import type { Tables } from "../blocks/tables.ts";
import { brokenInvariant } from "../errors.ts";

/** Which records of the job table are in use, and by which request slot. */
export class JobRecords {
  readonly #tables: Tables;
  /** Free records, oldest first: a record rests as long as possible, so that a duplicate report finds nobody. */
  readonly #free: Int32Array;
  #freeHead = 0;
  #freeCount = 0;
  readonly #live: Uint8Array;
  readonly #slot: Int32Array;
  readonly #next: Int32Array;
  readonly #firstOfSlot: Int32Array;
  readonly #ofSlot: Int32Array;

  constructor(tables: Tables) {
    const { jobSlots, requestSlots } = tables.dimensions;
    this.#tables = tables;
    this.#free = new Int32Array(jobSlots);
    this.#live = new Uint8Array(jobSlots);
    this.#slot = new Int32Array(jobSlots).fill(NONE);
    this.#next = new Int32Array(jobSlots).fill(NONE);
    this.#firstOfSlot = new Int32Array(requestSlots).fill(NONE);
    this.#ofSlot = new Int32Array(requestSlots);
    for (let job = 0; job < jobSlots; job++) {
      // Pairs with the stores of a dead scheduler side.
      if (Atomics.load(tables.jobs, tables.job(job) + JOB_LIVE_WORD) === 0)
        this.#free[this.#freeCount++] = job;
    }
  }

  get free(): number {
    return this.#freeCount;
  }
  get inUse(): number {
    return this.#live.length - this.#freeCount;
  }
  live(job: number): boolean {
    return this.#live[job] === 1;
  }
  /** Stays readable until the record is used again. */
  slot(job: number): number {
    return this.#slot[job] ?? NONE;
  }
  ofSlot(slot: number): number {
    return this.#ofSlot[slot]!;
  }
  firstOfSlot(slot: number): number {
    return this.#firstOfSlot[slot]!;
  }
  nextOfSlot(job: number): number {
    return this.#next[job]!;
  }

  /** The record that `take` will take, or NONE. */
  peek(): number {
    return this.#freeCount === 0 ? NONE : this.#free[this.#freeHead]!;
  }
  take(slot: number): number {
    const job = this.peek();
    this.#freeHead = (this.#freeHead + 1) % this.#free.length;
    this.#freeCount--;
    this.adopt(job, slot);
    return job;
  }
  /** The record was live already when this side was made. */
  adopt(job: number, slot: number): void {
    this.#live[job] = 1;
    this.#slot[job] = slot;
    this.#next[job] = this.#firstOfSlot[slot]!;
    this.#firstOfSlot[slot] = job;
    this.#ofSlot[slot] = this.#ofSlot[slot]! + 1;
  }

  giveBack(job: number): void {
    this.#unlink(job);
    // Pairs with the scan of a restarted loader or saver: the record is nobody's.
    Atomics.store(this.#tables.jobs, this.#tables.job(job) + JOB_LIVE_WORD, 0);
    this.#live[job] = 0;
    const tail = (this.#freeHead + this.#freeCount++) % this.#free.length;
    this.#free[tail] = job;
  }

  #unlink(job: number): void {
    const slot = this.#slot[job]!;
    let previous = NONE;
    let at = this.#firstOfSlot[slot]!;
    while (at !== job) {
      if (at === NONE) brokenInvariant("job is not in its request's list", job);
      previous = at;
      at = this.#next[at]!;
    }
    if (previous === NONE) this.#firstOfSlot[slot] = this.#next[job]!;
    else this.#next[previous] = this.#next[job]!;
    this.#ofSlot[slot] = this.#ofSlot[slot]! - 1;
  }
}
