/** The longest prefix that all groups can reuse at once. */
import { eagleMarginTokens } from "./hit-rules.ts";
import type { HitRules } from "./hit-rules.ts";
import { setHit } from "./set-hit.ts";
import type { Present, SetHit } from "./set-hit.ts";

export interface CommonHit {
  readonly tokens: number;
  /** Per set of `rules.sets`. */
  readonly ofSet: readonly SetHit[];
}

/**
 * Goes round the sets, each within what the one before left, until none shortens the hit. `dropLast`: whether drafters' groups
 * give up their last block (a lookup's hit has done so already when its load is planned).
 */
export function commonHit(
  rules: HitRules,
  tokensMax: number,
  hashes: number,
  present: Present,
  dropLast: boolean,
): CommonHit {
  const { sets } = rules;
  const [only] = sets;
  if (only === undefined) return { tokens: 0, ofSet: [] };
  if (sets.length === 1) {
    const hit = setHit(rules, only, tokensMax, hashes, present, dropLast && only.eagle);
    return { tokens: hit.tokens, ofSet: [hit] };
  }
  const ofSet: (SetHit | undefined)[] = sets.map(() => undefined);
  // With one set that needs all blocks and one other, the second answer is final: any shorter prefix suits the first.
  const oneRound = sets.length === 2 && only.needs === "all";
  const dropped = new Set<number>();
  let tokens = tokensMax;
  for (;;) {
    let current = tokens;
    sets.forEach((set, index) => {
      const known = ofSet[index];
      if (set.needs === "all" && known !== undefined) {
        current = Math.min(current, known.tokens);
        return;
      }
      const drop = dropLast && set.eagle && !dropped.has(index);
      // States are never given up, so a wider bound would find one beyond what the attention groups have.
      const limit =
        drop && set.needs !== "state"
          ? Math.min(current + eagleMarginTokens(rules, set), hashes * rules.hashBlockSize)
          : current;
      const hit = setHit(rules, set, limit, hashes, present, drop);
      if (drop) dropped.add(index);
      else if (hit.tokens < current) dropped.clear();
      current = hit.tokens;
      ofSet[index] = hit;
    });
    if (current >= tokens) break;
    tokens = current;
    if (oneRound) break;
  }
  return {
    tokens,
    ofSet: sets.map((set, index) => {
      const hit = ofSet[index] ?? { tokens: 0, from: 0, chunks: 0 };
      return set.needs === "all"
        ? { ...hit, tokens, chunks: Math.ceil(tokens / set.spanTokens) }
        : hit;
    }),
  };
}
