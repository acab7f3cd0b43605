import type { Lookup } from "../actors/messages.ts";
import {
  LOOKUP_SUBMITTED,
  lookupWord,
  REQUEST_GENERATION,
  REQUEST_LOOKUP_ASKED_WORD,
  REQUEST_LOOKUP_GENERATION,
  REQUEST_LOOKUP_HASHED_BLOCKS,
  REQUEST_LOOKUP_TOKENS,
} from "../blocks/layout.ts";
import type { Tables } from "../blocks/tables.ts";

/** Writes a question into the slot's record, for a restarted lookup actor, and returns it as the message for the running one. */
export function writeQuestion(
  tables: Tables,
  slot: number,
  attempt: number,
  tokens: number,
  hashedBlocks: number,
): Lookup {
  const words = tables.requests;
  const at = tables.request(slot);
  const generation = words[at + REQUEST_GENERATION]!;
  words[at + REQUEST_LOOKUP_TOKENS] = tokens;
  words[at + REQUEST_LOOKUP_HASHED_BLOCKS] = hashedBlocks;
  words[at + REQUEST_LOOKUP_GENERATION] = generation;
  // Publishes the question; pairs with the load of a restarted lookup actor's scan.
  Atomics.store(words, at + REQUEST_LOOKUP_ASKED_WORD, lookupWord(attempt, 0, LOOKUP_SUBMITTED));
  return { kind: "lookup", slot, generation, attempt, tokens, hashedBlocks };
}
