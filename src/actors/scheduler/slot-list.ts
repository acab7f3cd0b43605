import { NONE } from "../../blocks/layout.ts";
import { brokenInvariant } from "../../errors.ts";

/** Links of all slots: a slot is in at most one list, so one pair of links a slot serves all lists. */
export class SlotLinks {
  readonly next: Int32Array;
  readonly previous: Int32Array;
  /** Number of the list that holds the slot, 0: none. */
  readonly list: Uint8Array;
  #lists = 0;

  constructor(slots: number) {
    this.next = new Int32Array(slots).fill(NONE);
    this.previous = new Int32Array(slots).fill(NONE);
    this.list = new Uint8Array(slots);
  }

  newList(): SlotList {
    return new SlotList(this, ++this.#lists);
  }
}

/** An intrusive doubly linked list over request slots: all operations in constant time, no allocation. */
export class SlotList {
  head = NONE;
  tail = NONE;
  size = 0;
  readonly #links: SlotLinks;
  readonly #number: number;

  constructor(links: SlotLinks, number: number) {
    this.#links = links;
    this.#number = number;
  }

  next(slot: number): number {
    return this.#links.next[slot]!;
  }
  previous(slot: number): number {
    return this.#links.previous[slot]!;
  }
  has(slot: number): boolean {
    return this.#links.list[slot] === this.#number;
  }

  pushBack(slot: number): void {
    this.#enter(slot);
    this.#links.previous[slot] = this.tail;
    if (this.tail === NONE) this.head = slot;
    else this.#links.next[this.tail] = slot;
    this.tail = slot;
  }

  pushFront(slot: number): void {
    this.#enter(slot);
    this.#links.next[slot] = this.head;
    if (this.head === NONE) this.tail = slot;
    else this.#links.previous[this.head] = slot;
    this.head = slot;
  }

  remove(slot: number): void {
    if (!this.has(slot)) brokenInvariant("slot is not in this list", slot);
    const next = this.next(slot);
    const previous = this.previous(slot);
    if (previous === NONE) this.head = next;
    else this.#links.next[previous] = next;
    if (next === NONE) this.tail = previous;
    else this.#links.previous[next] = previous;
    this.#links.next[slot] = NONE;
    this.#links.previous[slot] = NONE;
    this.#links.list[slot] = 0;
    this.size--;
  }

  #enter(slot: number): void {
    if (this.#links.list[slot] !== 0) brokenInvariant("slot is in a list already", slot);
    this.#links.list[slot] = this.#number;
    this.size++;
  }
}
