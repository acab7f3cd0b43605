import type { HitRules } from "../../keys/coordinator/hit-rules.ts";
import type { LookupAnswer, LookupQuestion } from "../../keys/coordinator/lookup-plan.ts";
import type { RemoteAnswer } from "../step.ts";

export type CheckedAnswer = LookupAnswer;
export const NO_ANSWER: CheckedAnswer = { hitTokens: 0, tailTokens: [] };

/**
 * What another process answered, in this model's terms; null when it cannot be an answer to the question. Servers before tails
 * were sent name no group: their last blocks lie under the hit itself. Models whose hits are not planned have no tails.
 */
export function checkedAnswer(
  rules: HitRules,
  asked: LookupQuestion,
  answer: Pick<RemoteAnswer, "hitTokens" | "tails">,
): CheckedAnswer | null {
  const { hitTokens, tails } = answer;
  if (hitTokens === 0) return NO_ANSWER;
  const hashed = asked.hashes * rules.hashBlockSize;
  if (hitTokens >= asked.tokens || hitTokens > hashed || hitTokens % rules.alignmentTokens !== 0)
    return null;
  const tailTokens = rules.groups.map(() => hitTokens);
  for (const [group, tokens] of tails) {
    const span = rules.groups[group]?.spanTokens;
    if (span === undefined || tokens % rules.hashBlockSize !== 0) return null;
    const blockEnd = Math.ceil(hitTokens / span) * span;
    if (tokens < hitTokens || tokens > Math.min(blockEnd, hashed)) return null;
    tailTokens[group] = tokens;
  }
  return { hitTokens, tailTokens: rules.uniform ? [] : tailTokens };
}
