/** Which blocks of a request a load gets and a save puts: chunks in vLLM's order, with the hash that names each. */
import { putsChunk } from "../striping.ts";
import { alignDown } from "./hit-rules.ts";
import type { HitRules } from "./hit-rules.ts";
import { loadMasks, storeMasks } from "./masks.ts";
import { hashOfChunk } from "./set-hit.ts";

export interface GroupChunks {
  /** Index of the block in the request, ascending. */
  readonly chunks: Uint32Array;
  /** Number of the hash that names it. */
  readonly hashes: Uint32Array;
}

export interface LoadPlanInput {
  readonly hitTokens: number;
  /** Tokens that are in local blocks already. */
  readonly localTokens: number;
  /** `LookupAnswer.tailTokens`; empty: the last blocks are named by the hit. */
  readonly tailTokens: readonly number[];
}

/** Per group, the blocks to get. */
export function planLoad(rules: HitRules, input: LoadPlanInput): GroupChunks[] {
  const { hitTokens, tailTokens } = input;
  const masks = loadMasks(rules, hitTokens, Math.floor(hitTokens / rules.hashBlockSize));
  const localTokens = alignDown(input.localTokens, rules.blockTokens);
  return rules.groups.map(({ spanTokens }, group) => {
    const chunks: number[] = [];
    const hashes: number[] = [];
    const mask = masks[group];
    const end = Math.ceil(hitTokens / spanTokens);
    for (let chunk = Math.ceil(localTokens / spanTokens); chunk < end; chunk++) {
      if (mask?.[chunk] !== 1) continue;
      const endTokens = Math.min((chunk + 1) * spanTokens, hitTokens);
      const named = endTokens === hitTokens ? (tailTokens[group] ?? endTokens) : endTokens;
      chunks.push(chunk);
      hashes.push(named / rules.hashBlockSize - 1);
    }
    return { chunks: Uint32Array.from(chunks), hashes: Uint32Array.from(hashes) };
  });
}

export interface SavePlanInput {
  /** Tokens that are computed and may be saved. */
  readonly tokens: number;
  /** Tokens that this rank has saved before. */
  readonly savedTokens: number;
  /** Length of the prompt, generated tokens that were computed anew after a preemption included; null: not known. */
  readonly promptTokens: number | null;
}

export interface PutTurn {
  readonly putStep: number;
  readonly putPhase: number;
}

/** Per group, the blocks that this rank puts: those that a later hit can need, and of these its turn among equal ranks. */
export function planSave(
  rules: HitRules,
  input: SavePlanInput,
  turns: readonly PutTurn[],
): GroupChunks[] {
  const tokens = alignDown(input.tokens, rules.blockTokens);
  const masks = storeMasks(rules, tokens, input.savedTokens, input.promptTokens);
  return rules.groups.map(({ spanTokens }, group) => {
    const mask = masks[group] ?? null;
    const { putStep, putPhase } = turns[group] ?? { putStep: 1, putPhase: 0 };
    const first = Math.max(0, Math.ceil(input.savedTokens / spanTokens));
    const chunks: number[] = [];
    for (let chunk = first; chunk < tokens / spanTokens; chunk++) {
      if (mask !== null && mask[chunk - first] !== 1) continue;
      if (putsChunk(chunk, putStep, putPhase)) chunks.push(chunk);
    }
    return {
      chunks: Uint32Array.from(chunks),
      hashes: Uint32Array.from(chunks, (chunk) => hashOfChunk(rules, spanTokens, chunk)),
    };
  });
}
