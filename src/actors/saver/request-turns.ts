import { NONE } from "../../blocks/layout.ts";

/**
 * Planned saves of one request on one worker side follow one another, as in vLLM's sending thread: each starts where the one
 * before ended. Lists of items by request slot and worker side; allocates nothing after construction.
 */
export class RequestTurns {
  readonly #running: Int32Array;
  readonly #last: Int32Array;
  readonly #next: Int32Array;
  readonly #waits: Uint8Array;
  /** By item. Job records may be used anew as soon as a job is reported, so it is kept here. */
  readonly #place: Int32Array;

  /** `places`: request slots times worker sides. */
  constructor(places: number, items: number) {
    this.#running = new Int32Array(places).fill(NONE);
    this.#last = new Int32Array(places).fill(NONE);
    this.#next = new Int32Array(items).fill(NONE);
    this.#waits = new Uint8Array(items);
    this.#place = new Int32Array(items).fill(NONE);
  }

  /** True: it is the item's turn. False: it waits behind others. */
  enter(place: number, item: number): boolean {
    this.#place[item] = place;
    this.#next[item] = NONE;
    const last = this.#last[place]!;
    this.#last[place] = item;
    if (last === NONE) {
      this.#running[place] = item;
      return true;
    }
    this.#next[last] = item;
    this.#waits[item] = 1;
    return false;
  }

  waits(item: number): boolean {
    return this.#waits[item] === 1;
  }

  /** The item is over, whether it had its turn or not (or was never here). The item whose turn it is now, or NONE. */
  leave(item: number): number {
    const place = this.#place[item]!;
    if (place === NONE) return NONE;
    this.#place[item] = NONE;
    const running = this.#running[place]!;
    const next = this.#next[item]!;
    if (running === item) {
      this.#running[place] = next;
      if (next === NONE) this.#last[place] = NONE;
      else this.#waits[next] = 0;
      this.#next[item] = NONE;
      return next;
    }
    if (this.#waits[item] === 1) this.#unlink(place, item);
    return NONE;
  }

  #unlink(place: number, item: number): void {
    let before = this.#running[place]!;
    while (this.#next[before] !== item) before = this.#next[before]!;
    this.#next[before] = this.#next[item]!;
    if (this.#last[place] === item) this.#last[place] = before;
    this.#next[item] = NONE;
    this.#waits[item] = 0;
  }
}
