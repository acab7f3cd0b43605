import { OUTCOME_CANCELLED, OUTCOME_HIT, OUTCOME_MISS } from "../messages.ts";

/** Counted since this incarnation started; plain numbers for metrics. */
export interface LookupCounters {
  lookups: number;
  hits: number;
  misses: number;
  /** Lookups that the engine could not answer. */
  failures: number;
  discarded: number;
  /** discardLookup that came after the answer. */
  lateDiscards: number;
  hashedBlocks: number;
  batches: number;
  keys: number;
  /** Late, duplicate or unknown messages. */
  staleMessages: number;
  /** Questions and batches of a dead predecessor. */
  adoptedLookups: number;
  adoptedBatches: number;
  /** Times that a batch had to wait because the channel had no free slot. */
  channelFull: number;
}

export function createLookupCounters(): LookupCounters {
  return {
    lookups: 0,
    hits: 0,
    misses: 0,
    failures: 0,
    discarded: 0,
    lateDiscards: 0,
    hashedBlocks: 0,
    batches: 0,
    keys: 0,
    staleMessages: 0,
    adoptedLookups: 0,
    adoptedBatches: 0,
    channelFull: 0,
  };
}

/** One lookup more that ended so; given up ones are counted when they are discarded. */
export function countOutcome(counters: LookupCounters, outcome: number): void {
  if (outcome === OUTCOME_HIT) counters.hits++;
  else if (outcome === OUTCOME_MISS) counters.misses++;
  else if (outcome !== OUTCOME_CANCELLED) counters.failures++;
}
