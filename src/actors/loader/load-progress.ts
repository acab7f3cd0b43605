import { NONE } from "../../blocks/layout.ts";

/**
 * How far each load is: which entries are sent, and the first one that did not arrive. Entries are numbered in order of
 * chunks; they are sent in a rotated order (position p sends entry (p + rotation) % total), so that ranks do not all ask
 * the same owner first. After a failure nothing behind the failed entry is asked for any more: the request is cut there.
 */
export class LoadProgress {
  readonly #total: Int32Array;
  readonly #rotation: Int32Array;
  readonly #next: Int32Array;
  readonly #end: Int32Array;
  readonly #bad: Int32Array;

  constructor(items: number) {
    this.#total = new Int32Array(items);
    this.#rotation = new Int32Array(items);
    this.#next = new Int32Array(items);
    this.#end = new Int32Array(items);
    this.#bad = new Int32Array(items);
  }

  begin(item: number, total: number, rotation: number): void {
    this.#total[item] = total;
    this.#rotation[item] = rotation;
    this.#next[item] = 0;
    this.#end[item] = total;
    this.#bad[item] = NONE;
  }

  next(item: number): number {
    return this.#next[item]!;
  }
  end(item: number): number {
    return this.#end[item]!;
  }
  sentTo(item: number, position: number): void {
    this.#next[item] = position;
  }
  entryAt(item: number, position: number): number {
    return (position + this.#rotation[item]!) % this.#total[item]!;
  }
  hasMore(item: number): boolean {
    return this.#next[item]! < this.#end[item]!;
  }

  /** First entry that did not or will not arrive, or NONE. */
  bad(item: number): number {
    return this.#bad[item]!;
  }

  /** The entry did not arrive; what is behind it is not sent any more. `groups` entries belong to one chunk. */
  failed(item: number, entry: number, groups: number): void {
    // The whole chunk is lost, whichever of its groups failed.
    const chunkEntry = entry - (entry % groups);
    this.#markBad(item, chunkEntry);
    const wrap = this.#total[item]! - this.#rotation[item]!;
    const bad = this.#bad[item]!;
    if (this.#next[item]! < wrap && this.entryAt(item, this.#next[item]!) >= bad)
      this.#next[item] = wrap;
    this.#end[item] = Math.min(this.#end[item]!, wrap + Math.min(bad, this.#rotation[item]!));
  }

  /** Nothing more is sent: what was still wanted did not arrive. True when there was something. */
  giveUp(item: number): boolean {
    if (!this.hasMore(item)) return false;
    const wrap = this.#total[item]! - this.#rotation[item]!;
    const next = this.#next[item]!;
    // Everything up to the wrap's far side is unsent, and the rotated part starts with entry 0.
    const beforeWrap = next < wrap && this.#end[item]! <= wrap;
    this.#markBad(item, beforeWrap ? this.entryAt(item, next) : Math.max(0, next - wrap));
    this.#end[item] = next;
    return true;
  }

  #markBad(item: number, entry: number): void {
    const known = this.#bad[item]!;
    if (known === NONE || entry < known) this.#bad[item] = entry;
  }
}
