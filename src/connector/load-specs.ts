import { NONE } from "../blocks/layout.ts";
import type { Tables } from "../blocks/tables.ts";
import { MooncakeKvError } from "../errors.ts";
import type { HitRules } from "../keys/coordinator/hit-rules.ts";
import { HitTails } from "./hit-tails.ts";

/**
 * What `matchedTokens` offered in this step: vLLM's LoadSpec, by slot. An offer holds a job record until the step is closed,
 * so that a load whose blocks are allocated can always be written down.
 */
export class LoadSpecs {
  readonly #localTokens: Int32Array;
  /** Tokens in the pool, or NONE without an offer. */
  readonly #poolTokens: Int32Array;
  readonly tails: HitTails;
  /** Slots with offers of this step; entries of withdrawn offers stay until the step is closed. */
  readonly #offered: Int32Array;
  #entries = 0;
  #open = 0;

  constructor(tables: Tables, rules: HitRules) {
    const slots = tables.dimensions.requestSlots;
    this.tails = new HitTails(tables, rules);
    this.#localTokens = new Int32Array(slots);
    this.#poolTokens = new Int32Array(slots).fill(NONE);
    this.#offered = new Int32Array(slots);
  }

  /** Offers that were neither taken nor refused. */
  get open(): number {
    return this.#open;
  }
  has(slot: number): boolean {
    return this.#poolTokens[slot] !== NONE;
  }
  localTokens(slot: number): number {
    return this.#localTokens[slot]!;
  }
  poolTokens(slot: number): number {
    return this.#poolTokens[slot]!;
  }

  /** Takes a copy of `tails`, for all slots: the next lookup writes them anew. False: the step is full of withdrawn offers. */
  offer(slot: number, localTokens: number, poolTokens: number, tails: HitTails): boolean {
    if (!this.has(slot)) {
      if (this.#entries === this.#offered.length) return false;
      this.#offered[this.#entries++] = slot;
      this.#open++;
    }
    this.#localTokens[slot] = localTokens;
    this.#poolTokens[slot] = poolTokens;
    this.tails.copy(slot, tails);
    return true;
  }

  drop(slot: number): void {
    if (!this.has(slot)) return;
    this.#poolTokens[slot] = NONE;
    this.#open--;
  }

  /** Offers are good for one step. */
  closeStep(): void {
    for (let index = 0; index < this.#entries; index++) this.drop(this.#offered[index]!);
    this.#entries = 0;
  }

  /** Throws INVALID_VALUE when `externalTokens` is not exactly what was offered: blocks and offer would not fit. */
  check(slot: number, externalTokens: number): void {
    const offered = this.has(slot) ? this.#poolTokens[slot]! - this.#localTokens[slot]! : 0;
    if (externalTokens === offered) return;
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "externalTokens",
      value: externalTokens,
      problem: `must be 0 or the ${offered} tokens that were offered in this step`,
      remedy: "Take the whole offer or none of it, in the step in which it was made.",
    });
  }
}
