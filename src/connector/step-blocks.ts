import type { Tables } from "../blocks/tables.ts";
import { MooncakeKvError } from "../errors.ts";
import type { HitRules } from "../keys/coordinator/hit-rules.ts";

/** Whether the request's rows hold its first `tokens` tokens. */
export function hasRowBlocks(
  tables: Tables,
  rules: HitRules,
  slot: number,
  tokens: number,
): boolean {
  return shortGroup(tables, rules, slot, tokens) < 0;
}

/** First group whose row is shorter than that, or -1. */
function shortGroup(tables: Tables, rules: HitRules, slot: number, tokens: number): number {
  return rules.groups.findIndex(
    (rule, index) =>
      rule.needs !== "state" &&
      tables.rowBlocks(slot, index) * rule.spanTokens < Math.max(0, tokens),
  );
}

/** Throws INVALID_VALUE when the request's rows are shorter than the first `tokens` tokens: they would be saved out of nothing. */
export function checkRowBlocks(
  tables: Tables,
  rules: HitRules,
  slot: number,
  tokens: number,
  name: string | number,
): void {
  const group = shortGroup(tables, rules, slot, tokens);
  if (group < 0) return;
  const blocks = tables.rowBlocks(slot, group);
  const needed = tokens / rules.groups[group]!.spanTokens;
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field: "scheduled",
    value: { request: name, blocks, needed },
    problem: "the request has fewer blocks than it computes",
    remedy: "Name all its blocks before or with the step that computes them.",
  });
}
