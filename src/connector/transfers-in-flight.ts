import {
  JOB_ANSWERED_WORD,
  JOB_HANDED_OUT,
  JOB_KIND,
  JOB_KIND_SAVE,
  JOB_LIVE_WORD,
  JOB_RANKS,
} from "../blocks/layout.ts";
import type { Tables } from "../blocks/tables.ts";

export interface TransfersInFlight {
  readonly loads: number;
  readonly saves: number;
  /** Of the saves, those that wait for the end of their step: the loop has to go on before they can end. */
  readonly unstartedSaves: number;
}

/**
 * Jobs that some rank has yet to work off, whether or not the scheduler side has taken note of those that are: a loop that stands
 * still keeps its records. Any thread.
 */
export function transfersInFlight(tables: Tables): TransfersInFlight {
  let [loads, saves, unstartedSaves] = [0, 0, 0];
  for (let job = 0; job < tables.dimensions.jobSlots; job++) {
    const at = tables.job(job);
    // Pairs with the scheduler side's store when it publishes and frees the record.
    if (Atomics.load(tables.jobs, at + JOB_LIVE_WORD) !== 1) continue;
    // Pairs with the loader's or saver's Atomics.or before it reports.
    const answered = Atomics.load(tables.jobs, at + JOB_ANSWERED_WORD);
    const ranks = tables.jobs[at + JOB_RANKS]!;
    if ((answered & ranks) === ranks) continue;
    if (tables.jobs[at + JOB_KIND] !== JOB_KIND_SAVE) loads++;
    else {
      saves++;
      if (tables.jobs[at + JOB_HANDED_OUT] === 0) unstartedSaves++;
    }
  }
  return { loads, saves, unstartedSaves };
}
