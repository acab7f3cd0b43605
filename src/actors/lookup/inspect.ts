import { INSPECTED_MAX, type ActorInspection } from "../step.ts";
import type { LookupCounters } from "./lookup-counters.ts";
import { RECORD_HASHING, type LookupRecords } from "./lookup-records.ts";

/** Lookups in hand, the oldest first. */
export function inspectLookups(
  counters: LookupCounters,
  records: LookupRecords,
  queues: Readonly<Record<string, number>>,
  nowMs: number,
): ActorInspection {
  const used: number[] = [];
  for (let record = 0; record < records.capacity; record++)
    if (records.inUse(record)) used.push(record);
  used.sort((one, other) => records.beganMs[one]! - records.beganMs[other]!);
  const lookups = used.slice(0, INSPECTED_MAX).map((record) => ({
    slot: records.slot[record],
    generation: records.generation[record],
    attempt: records.attempt[record],
    phase: records.phase[record] === RECORD_HASHING ? "hashing" : "asking",
    discarded: records.discarded[record] === 1,
    ageMs: Math.round(nowMs - records.beganMs[record]!),
    tokens: records.tokens[record],
    keysAsked: records.nextKey[record],
    keys: records.endKey[record],
    batchesInFlight: records.inFlight[record],
  }));
  return {
    counters: { ...counters, inHand: used.length },
    inHand: { ...queues, lookups, lookupsNotListed: Math.max(0, used.length - INSPECTED_MAX) },
  };
}
