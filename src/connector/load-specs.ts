import { NONE } from "../blocks/layout.ts";
import { MooncakeKvError } from "../errors.ts";

/**
 * What `matchedTokens` offered in this step: vLLM's LoadSpec, by slot. An offer holds a job record until the step is closed,
 * so that a load whose blocks are allocated can always be written down.
 */
export class LoadSpecs {
  readonly #localTokens: Int32Array;
  /** Tokens in the pool, or NONE without an offer. */
  readonly #poolTokens: Int32Array;
  /** Slots with offers of this step; entries of withdrawn offers stay until the step is closed. */
  readonly #offered: Int32Array;
  #entries = 0;
  #open = 0;

  constructor(slots: number) {
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

  /** False when the list of this step is full of withdrawn offers. */
  offer(slot: number, localTokens: number, poolTokens: number): boolean {
    if (!this.has(slot)) {
      if (this.#entries === this.#offered.length) return false;
      this.#offered[this.#entries++] = slot;
      this.#open++;
    }
    this.#localTokens[slot] = localTokens;
    this.#poolTokens[slot] = poolTokens;
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
