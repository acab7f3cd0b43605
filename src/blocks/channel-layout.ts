/**
 * The part of the shared-memory layout (layout.ts has its rules) through which actors and native I/O threads exchange batches.
 */
import { LINE_WORDS } from "./line.ts";

// Engine channel: how one actor hands batches to native I/O threads (or to a simulated engine) and gets them back.
// Channel = header, completion ring, batch slots. A batch slot belongs to the actor until submit, then to the engine until
// its completion is in the ring. Mirrored by native/core/layout.h.
export const CHANNEL_HEADER_WORDS = 2 * LINE_WORDS;
/** Completions ever pushed. Written by engine threads (under their own mutex), loaded by the actor. */
export const CHANNEL_TAIL_WORD = 0;
/** Completions ever taken. Written by the actor. */
export const CHANNEL_HEAD_WORD = LINE_WORDS;

export const COMPLETION_WORDS = 4;
export const COMPLETION_SLOT = 0;
export const COMPLETION_STATUS = 1;
export const COMPLETION_TAG = 2;
export const COMPLETION_MICROSECONDS = 3;

export const BATCH_HEADER_WORDS = 16;
export const BATCH_STATE_WORD = 0;
export const BATCH_OPERATION = 1;
export const BATCH_COUNT = 2;
export const BATCH_TAG = 3;
export const BATCH_KEY_SPACE = 4;
export const BATCH_STATUS = 5;
/** Epoch of the actor that submitted: a successor quarantines what it did not submit itself. */
export const BATCH_EPOCH = 6;
/** Microseconds in the engine's queue and in the engine. */
export const BATCH_QUEUE_MICROSECONDS = 7;
export const BATCH_ENGINE_MICROSECONDS = 8;
/** Which job the batch works for, for a successor. */
export const BATCH_JOB = 9;
/**
 * Among actors only: 1 once the engine has taken the batch. A successor that finds a submitted batch without it cannot know
 * whether its predecessor died before or after handing it over, and hands it over again (the engine refuses a second time).
 */
export const ACTOR_BATCH_TAKEN = 10;

export const BATCH_STATE_FREE = 0;
export const BATCH_STATE_FILLING = 1;
export const BATCH_STATE_SUBMITTED = 2;
export const BATCH_STATE_DONE = 3;

/** One key of a batch: (group, prefix index, block id, hash row). `exists` and `remove` do not look at the block id. */
export const ENTRY_WORDS = 4;
export const ENTRY_GROUP = 0;
export const ENTRY_PREFIX = 1;
export const ENTRY_BLOCK = 2;
export const ENTRY_HASH_ROW = 3;

export const OPERATION_EXISTS = 1;
export const OPERATION_PUT = 2;
export const OPERATION_GET = 3;
export const OPERATION_REMOVE = 4;
/** Count 0: everything in the pool. */
export const OPERATION_REMOVE_ALL = 5;

/** Where a value lay. Of a get that found one of another size (BUFFER_SMALLER, BUFFER_LARGER) this word has its bytes; 0: unknown. */
export const TIER_UNKNOWN = 0;
export const TIER_MEMORY = 1;
export const TIER_DISK = 2;
/** The tier in a word of `tiers`, beside which stands whether the value that a get brought fits its checksum. */
export const TIER_MASK = 3;
export const CHECK_VERIFIED = 4;

/** Result of `exists` for a key whose value no get would use: it has no checksum, and one is required. 1: it may be loaded. */
export const EXISTS_UNCHECKED = 2;

export interface ChannelShape {
  readonly batchSlots: number;
  readonly keysPerBatchMax: number;
}
/** Completion-ring entries: a power of two that holds every batch slot, so that the ring cannot overflow. */
export function completionSlots(shape: ChannelShape): number {
  let slots = 1;
  while (slots < shape.batchSlots) slots *= 2;
  return slots;
}
/** Words of one batch slot: header, entries, results, tiers; rounded up to whole lines. */
export function batchWords(shape: ChannelShape): number {
  const words = BATCH_HEADER_WORDS + shape.keysPerBatchMax * (ENTRY_WORDS + 2);
  return Math.ceil(words / LINE_WORDS) * LINE_WORDS;
}
export function channelWords(shape: ChannelShape): number {
  const ring = Math.ceil((completionSlots(shape) * COMPLETION_WORDS) / LINE_WORDS) * LINE_WORDS;
  return CHANNEL_HEADER_WORDS + ring + shape.batchSlots * batchWords(shape);
}
