import { JOB_KIND, JOB_KIND_SAVE, JOB_LIVE_WORD } from "../../../blocks/layout.ts";
import type { Tables } from "../../../blocks/tables.ts";

/** Saves that some rank has not reported yet. Any thread. */
export function savesInFlight(tables: Tables): number {
  let saves = 0;
  for (let job = 0; job < tables.dimensions.jobSlots; job++) {
    const at = tables.job(job);
    // Pairs with the scheduler side's store when it publishes and frees the record.
    const live = Atomics.load(tables.jobs, at + JOB_LIVE_WORD) === 1;
    if (live && tables.jobs[at + JOB_KIND] === JOB_KIND_SAVE) saves++;
  }
  return saves;
}
