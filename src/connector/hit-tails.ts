import { REQUEST_TAIL_TOKENS } from "../blocks/layout.ts";
import type { Tables } from "../blocks/tables.ts";
import type { HitRules } from "../keys/coordinator/hit-rules.ts";

/**
 * Of planned hits, by slot and group: the tokens that name the block in which the hit ends (REQUEST_TAIL_TOKENS). Empty, and
 * nothing is copied, where hits are not planned.
 */
export class HitTails {
  readonly words: Int32Array;
  readonly #tables: Tables;
  readonly #groups: number;

  constructor(tables: Tables, rules: HitRules) {
    this.#tables = tables;
    this.#groups = rules.uniform ? 0 : rules.groups.length;
    this.words = new Int32Array(tables.dimensions.requestSlots * this.#groups);
  }

  /** Where the slot's words begin. */
  at(slot: number): number {
    return slot * this.#groups;
  }
  /** From the record of an answer that has just been read. */
  read(slot: number): void {
    const from = this.#tables.request(slot) + REQUEST_TAIL_TOKENS;
    for (let group = 0; group < this.#groups; group++)
      this.words[this.at(slot) + group] = this.#tables.requests[from + group]!;
  }
  copy(slot: number, from: HitTails): void {
    for (let at = this.at(slot); at < this.at(slot + 1); at++) this.words[at] = from.words[at]!;
  }
}
