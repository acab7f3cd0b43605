/**
 * How much of everything there may be at a time. Queues, tables and arenas are sized from the same numbers that their users keep
 * to, so each bound stands here once: who changes one changes both sides.
 */
import { BLOCKS_PER_PAGE } from "./layout.ts";

/** Records of the job table for each request slot: a load, and saves of earlier steps that are still with the engine. */
export const JOBS_PER_REQUEST_SLOT = 4;

/** Lookups of one request that may be unanswered at a time, given up ones included. */
export const LOOKUPS_PER_REQUEST_MAX = 3;
/** Lookups of one slot in hand of the lookup actor: those of a scheduler side and of its dead predecessor. */
export const LOOKUP_RECORDS_PER_SLOT = 2 * LOOKUPS_PER_REQUEST_MAX;

/** Job records that saves may hold: what the engine has yet to store must not keep requests from loading. */
export function saveJobsMax(jobSlots: number): number {
  return Math.max(1, jobSlots - Math.ceil(jobSlots / JOBS_PER_REQUEST_SLOT));
}

/**
 * Blocks of loads that their engine does not give back (`Jobs.lose`), above which no new load starts: else gets that hang for ever
 * would have all blocks in the end, load by load. Computing goes on. Saves, and loads that may still be answered, do not count.
 */
export function lostBlocksMax(blockCount: number): number {
  // Block 0 is nobody's.
  return Math.floor((blockCount - 1) / 4);
}

/** Blocks that loads in flight may fill; one load may always run. */
export function loadBlocksMax(blockCount: number): number {
  // Block 0 is nobody's.
  return Math.floor((blockCount - 1) / 2);
}

/** What the sizes below depend on; see `TableDimensions`. */
interface Shape {
  readonly requestSlots: number;
  readonly jobSlots: number;
  readonly groups: number;
  readonly blockCount: number;
  readonly blockSize: number;
  readonly groupSpanTokens?: readonly number[];
  readonly tokensMax: number;
}

/**
 * Pages of the arena for rows of block ids. Each row wastes at most one page a group; the rest is entries, one for each block
 * that may be named at a time: by rows of requests and of those that ended and owe a save, by loads, and for saves twice as much.
 */
export function blockRowPages(shape: Shape): number {
  return rowPages(shape) + Math.ceil((5 * namedBlocks(shape)) / BLOCKS_PER_PAGE);
}
/**
 * Pages that the rows of saves may hold beyond the first of each row, which can wait: all but what request rows and loads may
 * need. The first pages of all rows of all job records are there in any case.
 */
export function furtherSavePagesMax(shape: Shape): number {
  const named = namedBlocks(shape);
  return Math.ceil((4 * named) / BLOCKS_PER_PAGE) - Math.ceil((2 * named) / BLOCKS_PER_PAGE);
}
function rowPages({ groups, requestSlots, jobSlots }: Shape): number {
  // A save may have boundary puts: one more row.
  return groups * requestSlots + (groups + 1) * jobSlots;
}
function namedBlocks(shape: Shape): number {
  const { groups, blockCount, tokensMax, blockSize, groupSpanTokens } = shape;
  let blocks = 0;
  for (let group = 0; group < groups; group++)
    blocks += Math.max(blockCount, tokensMax / (groupSpanTokens?.[group] ?? blockSize));
  return blocks;
}

/** Records that the senders of each mailbox may have in it at a time: a sum with one term for each holder. */
export interface MailboxRecords {
  readonly scheduler: number;
  readonly lookup: number;
  readonly loader: number;
  readonly saver: number;
  readonly model: number;
  readonly frontEnd: number;
}
/** Restarts, stop, tickets. */
const LIFE_CYCLE_RECORDS = 64;
/** Scheduling steps whose tokens the front end may not have read yet; the scheduler asks for room before it sends more. */
const UNREAD_STEPS = 64;

export function mailboxRecords(
  requestSlots: number,
  jobSlots: number,
  stepSequencesMax: number,
  ranks: number,
): MailboxRecords {
  const lookups = LOOKUPS_PER_REQUEST_MAX;
  return {
    // Per slot: addRequest, abortRequest, hashed, and lookupDone of each lookup. Per job and rank: a report, and its
    // repetition by a restarted actor. Two answers of the model.
    scheduler: LIFE_CYCLE_RECORDS + (3 + lookups) * requestSlots + 2 * ranks * jobSlots + 2,
    // Per slot: hashRequest, and of each lookup the question and its discard.
    lookup: LIFE_CYCLE_RECORDS + (1 + 2 * lookups) * requestSlots,
    // Per job: cancelLoad, and of each rank load or save, once more after a restart.
    loader: LIFE_CYCLE_RECORDS + (2 * ranks + 1) * jobSlots,
    saver: LIFE_CYCLE_RECORDS + 2 * ranks * jobSlots,
    model: LIFE_CYCLE_RECORDS + 2,
    // Per slot: requestFinished and slotReleased; and unread tokens.
    frontEnd: LIFE_CYCLE_RECORDS + 2 * requestSlots + UNREAD_STEPS * Math.max(1, stepSequencesMax),
  };
}

/** Rows of top log-probabilities: twice what the front end's mailbox holds, so that no unread message loses its row. */
export function logprobRows(requestSlots: number, stepSequencesMax: number): number {
  if (stepSequencesMax === 0) return 1;
  return powerOfTwo(2 * mailboxRecords(requestSlots, 0, stepSequencesMax, 0).frontEnd);
}

/** The least power of two that is not below `count`. */
export function powerOfTwo(count: number): number {
  return 2 ** Math.ceil(Math.log2(count));
}
