import { CHECK_VERIFIED } from "../../blocks/layout.ts";
import { EngineCode } from "../../store/engine.ts";
import { COUNTERS } from "../../trace/counters.ts";
import { CHECK_LABELS, HIT_REFUSED, HIT_UNVERIFIED, HIT_VERIFIED } from "../../trace/families.ts";
import type { StoreMetrics } from "../jobs/store-metrics.ts";

/** Codes of values that the pool has, or had, and that are not used. */
const REFUSALS: readonly number[] = [
  EngineCode.CHECKSUM_MISMATCH,
  EngineCode.REMOVED_UNDER_READ,
  EngineCode.VALUE_UNREADABLE,
];

/** What became of a load's values by their checksums, in tokens: a block of several values counts in equal parts. By item. */
export class ValueChecks {
  /** Of the batch in hand: keys by refusal. */
  readonly refusals = new Int32Array(REFUSALS.length);
  readonly #tokensOfKey: Float64Array;
  readonly #keys: Int32Array;

  constructor(items: number) {
    this.#tokensOfKey = new Float64Array(items);
    this.#keys = new Int32Array(items * CHECK_LABELS.length);
  }

  begin(item: number, tokens: number, keys: number): void {
    this.#tokensOfKey[item] = keys === 0 ? 0 : tokens / keys;
    this.#keys.fill(0, item * CHECK_LABELS.length, (item + 1) * CHECK_LABELS.length);
  }

  beginBatch(): void {
    this.refusals.fill(0);
  }

  /** `code`: bytes or a code below 0; `tier`: the word beside it. */
  add(item: number, code: number, tier: number): void {
    const first = item * CHECK_LABELS.length;
    if (code >= 0) {
      const check = (tier & CHECK_VERIFIED) === 0 ? HIT_UNVERIFIED : HIT_VERIFIED;
      this.#keys[first + check]!++;
      return;
    }
    const refusal = REFUSALS.indexOf(code);
    if (refusal < 0) return;
    this.refusals[refusal]!++;
    this.#keys[first + HIT_REFUSED]!++;
  }

  /** Visits the refusals of the batch in hand. */
  eachRefusal(visit: (code: number, keys: number) => void): void {
    for (let index = 0; index < REFUSALS.length; index++)
      if (this.refusals[index]! > 0) visit(REFUSALS[index]!, this.refusals[index]!);
  }

  /** The job is over. */
  count(item: number, metrics: StoreMetrics | undefined): void {
    if (metrics === undefined) return;
    for (let check = 0; check < CHECK_LABELS.length; check++) {
      const keys = this.#keys[item * CHECK_LABELS.length + check]!;
      metrics.add(COUNTERS.hitTokens + check, Math.round(keys * this.#tokensOfKey[item]!));
    }
  }
}
