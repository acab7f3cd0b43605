/** What a lookup asks the pool for, and what follows from the answer: the hit, and under which hash each group's last block lies. */
import { commonHit } from "./common-hit.ts";
import { alignDown } from "./hit-rules.ts";
import type { HitRules } from "./hit-rules.ts";
import { lookupMasks } from "./masks.ts";
import { hashOfChunk } from "./set-hit.ts";
import type { Present } from "./set-hit.ts";

export interface LookupQuestion {
  /** Tokens of the request. */
  readonly tokens: number;
  /** Its block hashes at hand. */
  readonly hashes: number;
}

export interface LookupPlan extends LookupQuestion {
  /** Per group, the hash numbers to ask for, ascending. Keys follow in this order, each once for every lookup prefix. */
  readonly hashesOfGroup: readonly Uint32Array[];
}

export interface LookupAnswer {
  readonly hitTokens: number;
  /**
   * Per group, the tokens whose hash names the stored block in which the hit ends. That is the hit itself, unless it ends inside
   * a block that was stored under a later hash. Empty without a hit.
   */
  readonly tailTokens: readonly number[];
}

export const NO_HIT: LookupAnswer = { hitTokens: 0, tailTokens: [] };

export function planLookup(rules: HitRules, question: LookupQuestion): LookupPlan {
  const { hashes } = question;
  const tokens = alignDown(question.tokens, rules.alignmentTokens);
  const masks = rules.partialBlocks ? [] : lookupMasks(rules, tokens);
  const hashesOfGroup = rules.groups.map(({ spanTokens }, index) => {
    // Reuse inside of blocks can end on any hash.
    if (rules.partialBlocks) {
      const every = new Uint32Array(Math.min(hashes, tokens / rules.hashBlockSize));
      for (let hash = 0; hash < every.length; hash++) every[hash] = hash;
      return every;
    }
    const mask = masks[index] ?? null;
    const hashed = Math.floor((hashes * rules.hashBlockSize) / spanTokens);
    const chunks = Math.min(hashed, Math.ceil(tokens / spanTokens), mask?.length ?? Infinity);
    const asked = new Uint32Array(Math.max(0, chunks));
    let count = 0;
    for (let chunk = 0; chunk < chunks; chunk++) {
      if (mask === null || mask[chunk] === 1)
        asked[count++] = hashOfChunk(rules, spanTokens, chunk);
    }
    return asked.subarray(0, count);
  });
  return { ...question, hashesOfGroup };
}

/** Keys of the lookup. `prefixes`: lookup prefixes of each group. */
export function lookupKeys(plan: LookupPlan, prefixes: readonly number[]): number {
  return plan.hashesOfGroup.reduce(
    (all, asked, group) => all + asked.length * (prefixes[group] ?? 0),
    0,
  );
}

/**
 * `exists[i]` is 1 when key i of the plan exists; anything else counts as absent. A block is there when it exists under all
 * prefixes of its group. A hit on all tokens is derived again below them, so that the last token is computed for sampling.
 */
export function answerLookup(
  rules: HitRules,
  plan: LookupPlan,
  prefixes: readonly number[],
  exists: ArrayLike<number>,
): LookupAnswer {
  const { tokens, hashes } = plan;
  const there = presentHashes(plan, prefixes, exists);
  const present: Present = ({ members }, hash) => {
    for (let index = 0; index < members.length; index++) {
      if (there[members[index]!]?.[hash] !== 1) return false;
    }
    return true;
  };
  let limit = alignDown(tokens, rules.alignmentTokens);
  let hitTokens = limit > 0 ? commonHit(rules, limit, hashes, present, true).tokens : 0;
  if (hitTokens >= tokens) {
    limit = alignDown(tokens - 1, rules.alignmentTokens);
    hitTokens = limit > 0 ? commonHit(rules, limit, hashes, present, true).tokens : 0;
  }
  if (hitTokens <= 0) return NO_HIT;
  const tailTokens: number[] = [];
  for (let group = 0; group < rules.groups.length; group++) {
    const tail = tailOf(rules, group, hitTokens, hashes, there[group]);
    // Nothing names the block in which the hit ends, so it cannot be loaded.
    if (tail === 0) return NO_HIT;
    tailTokens.push(tail);
  }
  return { hitTokens, tailTokens };
}

/** Per group and hash, 1 when the block exists under every prefix. */
function presentHashes(
  plan: LookupPlan,
  prefixes: readonly number[],
  exists: ArrayLike<number>,
): Uint8Array[] {
  let key = 0;
  return plan.hashesOfGroup.map((asked, group) => {
    const there = new Uint8Array(plan.hashes);
    const count = prefixes[group] ?? 0;
    for (let index = 0; index < asked.length; index++) {
      let all = 1;
      for (const end = key + count; key < end; key++) if (exists[key] !== 1) all = 0;
      there[asked[index]!] = all;
    }
    return there;
  });
}

function tailOf(
  rules: HitRules,
  group: number,
  hitTokens: number,
  hashes: number,
  there: Uint8Array | undefined,
): number {
  const span = rules.groups[group]?.spanTokens ?? rules.blockTokens;
  const blockEnd = (Math.ceil(hitTokens / span) * span) / rules.hashBlockSize;
  for (let hash = hitTokens / rules.hashBlockSize - 1; hash < Math.min(blockEnd, hashes); hash++) {
    if (there?.[hash] === 1) return (hash + 1) * rules.hashBlockSize;
  }
  return 0;
}
