/** How far one set of like groups can be reused, given which of its blocks are there. */
import { alignDown, windowBlocks } from "./hit-rules.ts";
import type { HitGroupSet, HitRules } from "./hit-rules.ts";

/** Whether every group of the set has the block that is keyed by hash number `hashIndex` of the request. */
export type Present = (set: HitGroupSet, hashIndex: number) => boolean;

export interface SetHit {
  readonly tokens: number;
  /** Chunks [from, chunks) are needed locally; those below `from` lie outside of the window or before the state. */
  readonly from: number;
  readonly chunks: number;
}

/** The longest hit of at most `tokensMax` tokens. `hashes`: hashes at hand. With `dropLast`, a drafter's last block is given up. */
export function setHit(
  rules: HitRules,
  set: HitGroupSet,
  tokensMax: number,
  hashes: number,
  present: Present,
  dropLast: boolean,
): SetHit {
  if (set.needs === "all") return allHit(rules, set, tokensMax, hashes, present, dropLast);
  if (set.needs === "state") return stateHit(rules, set, tokensMax, hashes, present);
  return windowHit(rules, set, tokensMax, present, dropLast);
}

/** Hash that names chunk `chunk`: its last one, which covers everything before it. */
export function hashOfChunk(rules: HitRules, spanTokens: number, chunk: number): number {
  return ((chunk + 1) * spanTokens) / rules.hashBlockSize - 1;
}

function allHit(
  rules: HitRules,
  set: HitGroupSet,
  tokensMax: number,
  hashes: number,
  present: Present,
  dropLast: boolean,
): SetHit {
  const { spanTokens } = set;
  const unit = rules.alignmentTokens;
  const hashesPerChunk = spanTokens / rules.hashBlockSize;
  const chunksMax = Math.min(
    Math.floor(tokensMax / spanTokens),
    Math.floor(hashes / hashesPerChunk),
  );
  let chunks = 0;
  while (chunks < chunksMax && present(set, hashOfChunk(rules, spanTokens, chunks))) chunks++;
  let tokens = chunks * spanTokens;
  if (endsInsideBlocks(rules, set)) {
    // Into the first block that is not whole: a block stored at any of its inner hashes begins with the same states.
    const first = chunks * hashesPerChunk;
    const end = Math.min(first + hashesPerChunk - 1, Math.floor(tokensMax / unit), hashes);
    for (let hash = end - 1; hash >= first; hash--) {
      if (!present(set, hash)) continue;
      tokens = (hash + 1) * unit;
      break;
    }
  }
  if (dropLast && tokens > 0) tokens -= Math.min(unit, spanTokens);
  tokens = alignDown(tokens, unit);
  return { tokens, from: 0, chunks: Math.ceil(tokens / spanTokens) };
}

/** Right to left: the first run of blocks that fills the window and ends on an aligned position; else what leads from the start. */
function windowHit(
  rules: HitRules,
  set: HitGroupSet,
  tokensMax: number,
  present: Present,
  dropLast: boolean,
): SetHit {
  const { spanTokens } = set;
  const needed = windowBlocks(set, dropLast);
  const aligned = (chunks: number): boolean => (chunks * spanTokens) % rules.alignmentTokens === 0;
  let run = 0;
  let from = 0;
  let chunks = 0;
  let found = false;
  for (let chunk = Math.floor(tokensMax / spanTokens) - 1; chunk >= 0 && !found; chunk--) {
    if (!present(set, hashOfChunk(rules, spanTokens, chunk))) {
      run = 0;
      continue;
    }
    if (run === 0 && !aligned(dropLast ? chunk : chunk + 1)) continue;
    run++;
    found = run >= needed;
    from = chunk;
    chunks = chunk + run;
  }
  if (!found) {
    from = 0;
    chunks = run;
    while (!aligned(chunks)) chunks--;
  }
  if (dropLast && chunks > 0) {
    chunks--;
    while (!aligned(chunks)) chunks--;
  }
  return { tokens: chunks * spanTokens, from, chunks };
}

function stateHit(
  rules: HitRules,
  set: HitGroupSet,
  tokensMax: number,
  hashes: number,
  present: Present,
): SetHit {
  const { spanTokens } = set;
  const inside = endsInsideBlocks(rules, set);
  const unit = inside ? rules.alignmentTokens : spanTokens;
  const hashesPerUnit = unit / rules.hashBlockSize;
  const unitsMax = inside
    ? Math.min(Math.floor(tokensMax / unit), hashes)
    : Math.floor(tokensMax / unit);
  for (let units = unitsMax; units > 0; units--) {
    const tokens = units * unit;
    if (tokens % rules.alignmentTokens !== 0 || !present(set, units * hashesPerUnit - 1)) continue;
    const chunks = Math.ceil(tokens / spanTokens);
    return { tokens, from: chunks - 1, chunks };
  }
  return { tokens: 0, from: 0, chunks: 0 };
}

function endsInsideBlocks(rules: HitRules, set: HitGroupSet): boolean {
  return rules.alignmentTokens < set.spanTokens && set.spanTokens % rules.alignmentTokens === 0;
}
