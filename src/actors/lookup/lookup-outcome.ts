import { OUTCOME_CANCELLED, OUTCOME_NONE } from "../messages.ts";
import type { LookupRecords } from "./lookup-records.ts";

/** Why a lookup whose batches are all back has no answer, or OUTCOME_NONE. */
export function failureOf(records: LookupRecords, record: number): number {
  if (records.discarded[record] === 1) return OUTCOME_CANCELLED;
  return records.undecided(record) ? records.failure[record]! : OUTCOME_NONE;
}
