import {
  LOOKUP_SUBMITTED,
  lookupAttempt,
  lookupState,
  REQUEST_GENERATION,
  REQUEST_LIVE_WORD,
  REQUEST_LOOKUP_GENERATION,
  REQUEST_LOOKUP_ASKED_WORD,
  REQUEST_PROMPT_TOKENS,
} from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";

/** The slot's rows belong to this request. */
export function isCurrent(tables: Tables, slot: number, generation: number): boolean {
  if (!(slot >= 0 && slot < tables.dimensions.requestSlots)) return false;
  const at = tables.request(slot);
  // Pairs with the owner's stores when it publishes and releases the slot.
  return (
    Atomics.load(tables.requests, at + REQUEST_LIVE_WORD) === 1 &&
    tables.requests[at + REQUEST_GENERATION] === generation
  );
}

/** Hash blocks of the prompt. */
export function promptBlocks(tables: Tables, slot: number): number {
  const tokens = tables.requests[tables.request(slot) + REQUEST_PROMPT_TOKENS]!;
  return tables.hashableBlocks(tokens);
}

/** Newest question of every live slot that was ever asked about: what a successor has to look at. */
export function forEachQuestion(
  tables: Tables,
  visit: (slot: number, generation: number, attempt: number) => void,
): void {
  const words = tables.requests;
  for (let slot = 0; slot < tables.dimensions.requestSlots; slot++) {
    const at = tables.request(slot);
    // Pairs with the owner's store: the record is whole.
    if (Atomics.load(words, at + REQUEST_LIVE_WORD) !== 1) continue;
    // Pairs with the scheduler side's store after it wrote the tokens.
    const asked = Atomics.load(words, at + REQUEST_LOOKUP_ASKED_WORD);
    const generation = words[at + REQUEST_GENERATION]!;
    // A former request's question, which a dead scheduler left open, says nothing about this one's rows.
    if (words[at + REQUEST_LOOKUP_GENERATION] !== generation) continue;
    if (lookupState(asked) === LOOKUP_SUBMITTED) visit(slot, generation, lookupAttempt(asked));
  }
}
