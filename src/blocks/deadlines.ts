import { NONE } from "./layout.ts";

/**
 * Deadlines of at most one wait for each id in [0, capacity): a binary heap with the place of every id, so that an answered
 * wait is taken out at once and a waiting one costs nothing. Waits of equal length arrive in order: adding one is then one
 * comparison. Allocates nothing after construction.
 */
export class Deadlines {
  readonly #timeMs: Float64Array;
  readonly #heap: Int32Array;
  /** Place of an id in the heap, or NONE. */
  readonly #place: Int32Array;
  #size = 0;

  constructor(capacity: number) {
    this.#timeMs = new Float64Array(capacity);
    this.#heap = new Int32Array(capacity);
    this.#place = new Int32Array(capacity).fill(NONE);
  }

  get size(): number {
    return this.#size;
  }
  /** Infinity when nothing waits. */
  nextMs(): number {
    return this.#size === 0 ? Infinity : this.#timeMs[this.#heap[0]!]!;
  }
  has(id: number): boolean {
    return this.#place[id] !== NONE;
  }
  timeMs(id: number): number {
    return this.has(id) ? this.#timeMs[id]! : Infinity;
  }

  set(id: number, timeMs: number): void {
    this.delete(id);
    this.#timeMs[id] = timeMs;
    this.#rise(this.#size++, id);
  }

  delete(id: number): void {
    const place = this.#place[id]!;
    if (place === NONE) return;
    this.#place[id] = NONE;
    const moved = this.#heap[--this.#size]!;
    if (moved === id) return;
    if (place > 0 && this.#timeMs[this.#heap[(place - 1) >> 1]!]! > this.#timeMs[moved]!)
      this.#rise(place, moved);
    else this.#sink(place, moved);
  }

  /** Takes out the earliest id whose time has come; NONE when there is none. */
  takeDue(nowMs: number): number {
    if (this.nextMs() > nowMs) return NONE;
    const id = this.#heap[0]!;
    this.delete(id);
    return id;
  }

  #rise(from: number, id: number): void {
    const time = this.#timeMs[id]!;
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = this.#heap[parent]!;
      if (this.#timeMs[above]! <= time) break;
      this.#put(place, above);
      place = parent;
    }
    this.#put(place, id);
  }

  #sink(from: number, id: number): void {
    const time = this.#timeMs[id]!;
    let place = from;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= this.#size) break;
      if (
        child + 1 < this.#size &&
        this.#timeMs[this.#heap[child + 1]!]! < this.#timeMs[this.#heap[child]!]!
      )
        child++;
      const below = this.#heap[child]!;
      if (this.#timeMs[below]! >= time) break;
      this.#put(place, below);
      place = child;
    }
    this.#put(place, id);
  }

  #put(place: number, id: number): void {
    this.#heap[place] = id;
    this.#place[id] = place;
  }
}
