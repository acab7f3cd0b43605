import { NONE } from "../../blocks/layout.ts";
import { settledHit } from "../../keys/prefix-hit.ts";
import { OUTCOME_CANCELLED, OUTCOME_HIT, OUTCOME_MISS } from "../messages.ts";
import type { LookupRecords } from "./lookup-records.ts";

/** Leading tokens that the keys asked so far have shown to be in the pool. */
export function foundTokens(
  records: LookupRecords,
  record: number,
  keysPerChunk: number,
  blockSize: number,
): number {
  const absent = records.absentKey[record]!;
  const keys = absent === NONE ? records.endKey[record]! : absent;
  const leading = Math.floor(keys / keysPerChunk);
  return settledHit(leading * blockSize, records.tokens[record]!, blockSize);
}

/** How a lookup whose batches are all back ended. */
export function outcomeOf(records: LookupRecords, record: number, found: number): number {
  if (records.discarded[record] === 1) return OUTCOME_CANCELLED;
  if (records.undecided(record)) return records.failure[record]!;
  return found > 0 ? OUTCOME_HIT : OUTCOME_MISS;
}
