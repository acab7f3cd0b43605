/** Possible merges of one word, the best first: lowest rank, then leftmost. A binary heap in two flat arrays, reused. */
export class MergeQueue {
  size = 0;
  /** rank * 2^32 + position: exact below 2^53, as ranks stay below 2^21. */
  #keys = new Float64Array(64);
  #results = new Int32Array(64);

  /** Position of the merge that was popped last. */
  position = 0;
  /** Token that it makes. */
  result = 0;

  push(rank: number, position: number, result: number): void {
    if (this.size === this.#keys.length) this.#grow();
    const key = rank * 0x1_0000_0000 + position;
    let at = this.size++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (this.#keys[parent]! <= key) break;
      this.#set(at, this.#keys[parent]!, this.#results[parent]!);
      at = parent;
    }
    this.#set(at, key, result);
  }

  /** Takes the best into `position` and `result`; false when there is none. */
  pop(): boolean {
    if (this.size === 0) return false;
    this.position = this.#keys[0]! % 0x1_0000_0000;
    this.result = this.#results[0]!;
    const last = --this.size;
    const [key, result] = [this.#keys[last]!, this.#results[last]!];
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= last) break;
      if (child + 1 < last && this.#keys[child + 1]! < this.#keys[child]!) child++;
      if (this.#keys[child]! >= key) break;
      this.#set(at, this.#keys[child]!, this.#results[child]!);
      at = child;
    }
    this.#set(at, key, result);
    return true;
  }

  #set(at: number, key: number, result: number): void {
    this.#keys[at] = key;
    this.#results[at] = result;
  }

  #grow(): void {
    const [keys, results] = [this.#keys, this.#results];
    this.#keys = new Float64Array(keys.length * 2);
    this.#keys.set(keys);
    this.#results = new Int32Array(results.length * 2);
    this.#results.set(results);
  }
}
