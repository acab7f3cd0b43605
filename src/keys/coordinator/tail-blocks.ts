/**
 * The blocks at a prompt's end that no whole save holds. With hits inside of blocks a later request resumes where the recurrent
 * state was kept last; for that, the other groups' blocks from the last whole save up to there must be in the pool as well.
 */
import { alignDown, eagleMarginTokens } from "./hit-rules.ts";
import type { HitRules } from "./hit-rules.ts";

export interface TailInput {
  /** Length of the prompt alone. */
  readonly promptTokens: number;
  /** Tokens that are computed when the step is over. */
  readonly computedTokens: number;
  /** Hashes of the request. */
  readonly hashes: number;
  /** The save is the first that covers the whole prompt. */
  readonly publish: boolean;
  /** Prefixes of which states are put that end inside of a block. */
  readonly stateTokens: readonly number[];
}

/** Block `chunk` of the group's row, put under the hash of the first `tokens` tokens. */
export interface TailBlock {
  readonly group: number;
  readonly chunk: number;
  readonly tokens: number;
}

/** vLLM's `_partial_tail_non_mamba_puts`, by places in the rows: the caller leaves null blocks out. */
export function tailBlocks(rules: HitRules, input: TailInput): TailBlock[] {
  const { publish, stateTokens, hashes, computedTokens } = input;
  if (!publish && stateTokens.length === 0) return [];
  const boundary = stateEnd(rules, input.promptTokens);
  if (!publish && !stateTokens.includes(boundary)) return [];
  const hashed = hashes * rules.hashBlockSize;
  if (boundary === 0 || boundary > hashed) return [];
  const start = alignDown(boundary, rules.blockTokens);
  const blocks: TailBlock[] = [];
  rules.groups.forEach((rule, group) => {
    if (rule.needs === "state") return;
    const end = boundary + (rule.eagle ? eagleMarginTokens(rules, rule) : 0);
    if (end > computedTokens || alignDown(end, rules.hashBlockSize) > hashed) return;
    const { spanTokens } = rule;
    for (let chunk = Math.floor(start / spanTokens); chunk * spanTokens < end; chunk++)
      blocks.push({ group, chunk, tokens: Math.min((chunk + 1) * spanTokens, end) });
  });
  return blocks;
}

/** Up to where the state of a prompt is kept: its last token is computed anew, and drafters give a block up. */
function stateEnd(rules: HitRules, promptTokens: number): number {
  const { hashBlockSize, useEagle } = rules;
  if (!useEagle) return alignDown(promptTokens - 1, hashBlockSize);
  return Math.max(0, alignDown(promptTokens, hashBlockSize) - hashBlockSize);
}
