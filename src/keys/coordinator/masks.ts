/**
 * Which chunks of each group a hit loads, a lookup asks for, and a save stores. A mask is one byte a chunk, 1 for yes; null
 * stands for "all of them", however many there are.
 */
import { commonHit } from "./common-hit.ts";
import { alignDown, windowBlocks } from "./hit-rules.ts";
import type { HitGroup, HitRules } from "./hit-rules.ts";

export type ChunkMask = Uint8Array | null;

/** Per group, the chunks from 0 on that a hit of `tokens` tokens needs locally. A chunk beyond the mask is not needed. */
export function loadMasks(rules: HitRules, tokens: number, hashes: number): Uint8Array[] {
  // The hit is settled: everything counts as there, and no block is given up a second time.
  const { ofSet } = commonHit(rules, tokens, hashes, () => true, false);
  return rules.groups.map((_, group) => {
    const hit = ofSet[rules.sets.findIndex((set) => set.members.includes(group))];
    return hit === undefined
      ? new Uint8Array(0)
      : new Uint8Array(hit.chunks).fill(1, Math.min(hit.from, hit.chunks));
  });
}

/** Per group, the chunks from 0 on at which an aligned hit of at most `tokens` tokens (a multiple of the alignment) can end. */
export function lookupMasks(rules: HitRules, tokens: number): ChunkMask[] {
  return rules.groups.map((group) => {
    return reachable(rules, group, 0, Math.floor(tokens / group.spanTokens), null, []);
  });
}

/**
 * Per group, the chunks to store of the first `tokens` tokens (a multiple of the alignment), starting with the first chunk at or
 * after `startToken`. States are never stored by position: only the scheduler knows in which block a state lies whole.
 */
export function storeMasks(
  rules: HitRules,
  tokens: number,
  startToken = 0,
  promptTokens: number | null = null,
): ChunkMask[] {
  const ends = promptTokens === null ? [] : replayEnds(rules, promptTokens);
  return rules.groups.map((group) => {
    const end = Math.floor(tokens / group.spanTokens);
    const start = Math.min(end, Math.max(0, Math.ceil(startToken / group.spanTokens)));
    if (group.needs === "state") return new Uint8Array(end - start);
    return reachable(rules, group, start, end, rules.retentionInterval, ends);
  });
}

/**
 * Where a later request with this prompt can resume: just below its end (its last token is computed anew), and for a longer
 * one at the last whole block. Drafters resume a block earlier.
 */
function replayEnds(rules: HitRules, promptTokens: number): number[] {
  if (!rules.groups.some((group) => group.eagle)) return [promptTokens - 1];
  return [promptTokens - 1, promptTokens].map((tokens) =>
    Math.max(alignDown(tokens, rules.blockTokens) - rules.blockTokens, 0),
  );
}

/** Chunks [start, end) that a hit ending on a kept position can need; null for all. */
function reachable(
  rules: HitRules,
  group: HitGroup,
  start: number,
  end: number,
  retention: number | null,
  ends: readonly number[],
): ChunkMask {
  // A lookup asks for every state; a save never comes here with one.
  if (group.needs !== "window") return null;
  const needed = windowBlocks(group, group.eagle);
  // A drafter's run ends one block behind the position and gives that one up.
  const shift = group.eagle ? 1 : 0;
  const mask = new Uint8Array(end - start);
  const segmentTokens = retention ?? rules.blockTokens;
  if (segmentTokens !== 0) {
    const perSegment = Math.floor(segmentTokens / group.spanTokens);
    if (needed >= perSegment) return null;
    for (let chunk = Math.max(start, shift); chunk < end; chunk++) {
      if ((chunk - shift) % perSegment >= perSegment - needed) mask[chunk - start] = 1;
    }
  }
  if (retention === null) return mask;
  for (const tokens of ends) {
    const stop = alignDown(tokens, rules.blockTokens) / group.spanTokens + shift;
    for (let chunk = Math.max(start, stop - needed); chunk < Math.min(end, stop); chunk++)
      mask[chunk - start] = 1;
  }
  return mask;
}
