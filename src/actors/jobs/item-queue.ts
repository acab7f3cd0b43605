import { brokenInvariant } from "../../errors.ts";

/** First in first out over ids in [0, capacity), each at most once. Allocates nothing after construction. */
export class ItemQueue {
  readonly #ring: Int32Array;
  readonly #queued: Uint8Array;
  #head = 0;
  #size = 0;

  constructor(capacity: number) {
    this.#ring = new Int32Array(capacity);
    this.#queued = new Uint8Array(capacity);
  }

  get size(): number {
    return this.#size;
  }
  has(id: number): boolean {
    return this.#queued[id] === 1;
  }
  push(id: number): void {
    if (this.#queued[id] === 1) brokenInvariant("queued twice", id);
    this.#queued[id] = 1;
    this.#ring[(this.#head + this.#size++) % this.#ring.length] = id;
  }
  /** The oldest id, which is taken out; -1 when there is none. */
  shift(): number {
    if (this.#size === 0) return -1;
    const id = this.#ring[this.#head]!;
    this.#head = (this.#head + 1) % this.#ring.length;
    this.#size--;
    this.#queued[id] = 0;
    return id;
  }
}
