import {
  ENTRY_BLOCK,
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_PREFIX,
  ENTRY_WORDS,
  NONE,
} from "../../blocks/layout.ts";
import { ChainCursor } from "../../blocks/page-arena.ts";
import { brokenInvariant } from "../../errors.ts";
import type { HitRules } from "../../keys/coordinator/hit-rules.ts";
import {
  answerLookup,
  lookupKeys,
  NO_HIT,
  planLookup,
} from "../../keys/coordinator/lookup-plan.ts";
import type { LookupAnswer, LookupPlan } from "../../keys/coordinator/lookup-plan.ts";
import type { KeyOrder, KeyOrderOptions } from "./key-order.ts";

/**
 * The keys of models with windows, states, drafters or several block sizes, in vLLM's order: group by group the hashes of the
 * plan, each over all lookup prefixes of the group. What is absent here says nothing about what is asked for there, so all keys
 * are asked, and the hit is derived when all have been told of.
 */
export class PlannedKeys implements KeyOrder {
  readonly #rules: HitRules;
  readonly #prefixesOfGroup: readonly Int32Array[];
  readonly #prefixCounts: readonly number[];
  readonly #cursor: ChainCursor;
  /** By record, while it asks: the plan, a byte for each of its keys, and the answer once there is one. */
  readonly #plans: (LookupPlan | null)[];
  readonly #exists: (Uint8Array | null)[];
  readonly #answers: LookupAnswer[];

  constructor({ tables, rules, keySpace }: KeyOrderOptions, records: number) {
    const { lookupPrefixesOfGroup } = keySpace;
    this.#rules = rules;
    this.#prefixesOfGroup = lookupPrefixesOfGroup.map((prefixes) => Int32Array.from(prefixes));
    this.#prefixCounts = lookupPrefixesOfGroup.map((prefixes) => prefixes.length);
    this.#cursor = new ChainCursor(tables.hashes);
    this.#plans = Array.from({ length: records }, () => null);
    this.#exists = Array.from({ length: records }, () => null);
    this.#answers = Array.from({ length: records }, () => NO_HIT);
  }

  hashBlocks(tokens: number, hashes: number): number {
    return Math.min(hashes, Math.floor(tokens / this.#rules.hashBlockSize));
  }

  begin(record: number, tokens: number, hashes: number): number {
    const plan = planLookup(this.#rules, { tokens, hashes });
    const keys = lookupKeys(plan, this.#prefixCounts);
    this.#plans[record] = plan;
    this.#exists[record] = new Uint8Array(keys);
    this.#answers[record] = NO_HIT;
    return keys;
  }

  fill(entries: Int32Array, record: number, hashPage: number, from: number, to: number): void {
    const { hashesOfGroup } = this.#plan(record);
    let before = 0;
    for (let group = 0; group < hashesOfGroup.length && before < to; group++) {
      const hashes = hashesOfGroup[group]!;
      const keys = hashes.length * this.#prefixesOfGroup[group]!.length;
      const first = Math.max(from, before);
      const end = Math.min(to, before + keys);
      if (first < end) {
        const at = (first - from) * ENTRY_WORDS;
        this.#fillGroup(entries, at, group, hashes, hashPage, first - before, end - before);
      }
      before += keys;
    }
  }

  told(record: number, key: number, exists: boolean): boolean {
    const bytes = this.#exists[record] ?? brokenInvariant("an answer to no question", record);
    bytes[key] = exists ? 1 : 0;
    return false;
  }

  hitTokens(record: number): number {
    const exists = this.#exists[record] ?? brokenInvariant("no answers", record);
    const answer = answerLookup(this.#rules, this.#plan(record), this.#prefixCounts, exists);
    this.#answers[record] = answer;
    return answer.hitTokens;
  }

  tailTokens(record: number): readonly number[] {
    return this.#answers[record]!.tailTokens;
  }

  end(record: number): void {
    this.#plans[record] = null;
    this.#exists[record] = null;
    this.#answers[record] = NO_HIT;
  }

  /** Keys [from, to) of one group. Hash numbers ascend, so the cursor goes over the row once. */
  #fillGroup(
    entries: Int32Array,
    at: number,
    group: number,
    hashes: Uint32Array,
    hashPage: number,
    from: number,
    to: number,
  ): void {
    const prefixes = this.#prefixesOfGroup[group]!;
    let index = Math.floor(from / prefixes.length);
    let prefix = from - index * prefixes.length;
    let hash = hashes[index]!;
    const cursor = this.#cursor.seek(hashPage, hash);
    let row = cursor.advanceRow();
    const end = at + (to - from) * ENTRY_WORDS;
    for (let word = at; word < end; word += ENTRY_WORDS) {
      if (prefix === prefixes.length) {
        prefix = 0;
        const next = hashes[++index]!;
        for (; hash < next; hash++) row = cursor.advanceRow();
      }
      entries[word + ENTRY_GROUP] = group;
      entries[word + ENTRY_PREFIX] = prefixes[prefix++]!;
      entries[word + ENTRY_BLOCK] = NONE;
      entries[word + ENTRY_HASH_ROW] = row;
    }
  }

  #plan(record: number): LookupPlan {
    return this.#plans[record] ?? brokenInvariant("a lookup without a plan", record);
  }
}
