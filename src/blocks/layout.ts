/**
 * The shared-memory layout: every word that more than one thread sees is named here, and nowhere else.
 *
 * All control structures are Int32 words in SharedArrayBuffers. Three rules make them safe without locks:
 *
 * 1. One writer a line. A record is split in lines of 16 words (64 bytes); each line is written by one thread only, so two
 *    writers never share a cache line and no write can tear another's.
 * 2. Publish last. A writer fills plain words first and then publishes with ONE Atomics.store (a mailbox sequence word, or a
 *    word named `..._WORD` below). A reader loads that word with Atomics.load first and reads the plain words after it: the
 *    store-release / load-acquire pair orders them.
 * 3. Nothing torn on death. A thread may be terminated between any two stores. Whatever it had not published does not
 *    exist; a published word is a single 32-bit store.
 *
 * Native code mirrors the channel, page and hash constants in native/core/layout.h; a test compares both through the addon.
 */

import { LINE_WORDS } from "./line.ts";

export * from "./channel-layout.ts";
export * from "./line.ts";

/** Most KV-cache groups of a model. */
export const GROUPS_MAX = 16;

/** No page, no slot, no block. */
export const NONE = -1;
// Pages. Rows (block tables, token lists, hash lists, job rows) are chains of fixed-size pages out of one arena, so that
// memory follows the blocks in use. Word 0 of a page is the index of the next page, or NONE. Entries start at PAGE_HEADER.
export const PAGE_HEADER_WORDS = 16;
export const PAGE_NEXT = 0;

/** Block-table and job rows: 112 block ids a page (512 bytes). */
export const BLOCK_PAGE_WORDS = 128;
export const BLOCKS_PER_PAGE = BLOCK_PAGE_WORDS - PAGE_HEADER_WORDS;

/** Token lists and extra-key streams: 1008 tokens a page (4 KiB). */
export const TOKEN_PAGE_WORDS = 1024;
export const TOKENS_PER_PAGE = TOKEN_PAGE_WORDS - PAGE_HEADER_WORDS;

/** Hash lists: 62 digests of 32 bytes a page (2 KiB). Shorter digests use the same stride. */
export const HASH_STRIDE_WORDS = 8;
export const HASH_PAGE_WORDS = 512;
export const HASHES_PER_PAGE = (HASH_PAGE_WORDS - PAGE_HEADER_WORDS) / HASH_STRIDE_WORDS;

// Request table: one record a slot. (slot, generation) is a request's identity inside; text ids stay at the edge.
export const REQUEST_WORDS = 8 * LINE_WORDS;

/** Line 0 — written by the slot's owner (front end or attached thread) before the request is announced by a message. */
export const REQUEST_GENERATION = 0;
export const REQUEST_PROMPT_TOKENS = 1;
/** Prompt tokens plus the most tokens that may be generated: what the token and hash rows have room for. */
export const REQUEST_TOKENS_MAX = 2;
export const REQUEST_TOKEN_PAGE = 3;
export const REQUEST_HASH_PAGE = 4;
/** First page (in the token arena) of the extra-key stream, or NONE. See hashing in ARCHITECTURE.md. */
export const REQUEST_EXTRAS_PAGE = 5;
export const REQUEST_FLAGS = 6;
/** Sampling: float32 bits. */
export const REQUEST_TEMPERATURE_F32 = 7;
export const REQUEST_TOP_P_F32 = 8;
export const REQUEST_SEED = 9;
/** Wanted top log-probabilities a token, NONE when no log-probability is wanted. */
export const REQUEST_LOGPROBS = 10;
/** 1 while the slot is in use. Published with Atomics.store after the words above: a restarted actor rebuilds from it. */
export const REQUEST_LIVE_WORD = 11;

export const REQUEST_FLAG_IGNORE_END_TOKENS = 1;
/** The request neither reads nor writes the pool (and not the local prefix cache): measured cold runs use it. */
export const REQUEST_FLAG_NO_REUSE = 2;
/** The request was aborted. Written by the owner with Atomics.or; the scheduler pairs with it on restart. */
export const REQUEST_FLAG_ABORTED = 4;

/** Line 1 — written by the scheduler side. */
export const REQUEST_LOOKUP_ASKED_WORD = 16;
/** How many tokens the asked lookup covers. */
export const REQUEST_LOOKUP_TOKENS = 17;
/** How many blocks of the hash row the asked lookup may take as they are. */
export const REQUEST_LOOKUP_HASHED_BLOCKS = 22;
/** Of which request the question is: it may outlive one whose scheduler died. */
export const REQUEST_LOOKUP_GENERATION = 23;
export const REQUEST_COMPUTED_TOKENS = 18;
/** Generated tokens that are in the token row; published with Atomics.store, pairs with the owner's Atomics.load. */
export const REQUEST_OUTPUT_TOKENS_WORD = 19;
export const REQUEST_STATUS = 20;
/**
 * Counts the lives of all requests that had the slot: one more with each request, and with each preemption. Never set back, so
 * that two lives of a slot never share a number while anybody remembers the first.
 */
export const REQUEST_LIFE = 24;

/** Line 2 — written by the scheduler side: first page of the block row of each group. */
export const REQUEST_BLOCK_PAGE = 32;

/** Line 3 — written by the lookup actor. */
export const REQUEST_LOOKUP_WORD = 48;
export const REQUEST_HIT_TOKENS = 49;

/** Lines 4 and 5 — loader and saver: counters for gauges. */
export const REQUEST_LOADS_IN_FLIGHT = 64;
export const REQUEST_SAVES_IN_FLIGHT = 80;

/** Line 6 — written by the scheduler side: blocks in the row of each group. Block 0 in a row: none there (any more). */
export const REQUEST_GROUP_BLOCKS = 96;

/**
 * Line 7 — written by the lookup actor before it publishes REQUEST_LOOKUP_WORD: of each group, the tokens whose hash names the
 * stored block in which the hit ends (`LookupAnswer.tailTokens`). Only of models whose hits are planned (`HitRules.uniform` false).
 */
export const REQUEST_TAIL_TOKENS = 112;

/**
 * A lookup word: attempt (16 bits) | epoch (8 bits) | state (8 bits).
 *
 * The scheduler side counts `attempt` up at each submit, over generations too, so an answer to an older question can never
 * be read as the answer to this one. `epoch` is the answering actor's, for the trace.
 */
export const LOOKUP_IDLE = 0;
export const LOOKUP_SUBMITTED = 1;
export const LOOKUP_HIT = 2;
export const LOOKUP_MISS = 3;
export const LOOKUP_ENGINE_ERROR = 4;
export const LOOKUP_ENGINE_DOWN = 5;
export const LOOKUP_IDENTITY_MISMATCH = 7;

export function lookupWord(attempt: number, epoch: number, state: number): number {
  return ((attempt & 0xffff) << 16) | ((epoch & 0xff) << 8) | state;
}
export function lookupAttempt(word: number): number {
  return word >>> 16;
}
export function lookupState(word: number): number {
  return word & 0xff;
}

// Job table: a load or a save of one request on one rank. Written by the scheduler side, worked off by loader or saver.
export const JOB_WORDS = 6 * LINE_WORDS;

export const JOB_KIND_LOAD = 1;
export const JOB_KIND_SAVE = 2;

/** Line 0 — written by the scheduler side, published by the message that names the job. */
export const JOB_KIND = 0;
export const JOB_SLOT = 1;
export const JOB_GENERATION = 2;
/** First chunk (index of a block in the request) that the job's rows hold; rows start with it. */
export const JOB_CHUNK_FIRST = 3;
export const JOB_CHUNKS = 4;
/** Tokens that the job covers, from the request's first token. */
export const JOB_TOKENS = 5;
/** For a load: tokens that are in local blocks already. */
export const JOB_LOCAL_TOKENS = 6;
/** First hash row index is found through this page chain (the request's hash row). */
export const JOB_HASH_PAGE = 7;
/** Deadline in the host's milliseconds, truncated to int32 (difference arithmetic only). */
export const JOB_DEADLINE_MS = 8;
/** store_job_id of vLLM for a save: counts up per scheduler side. */
export const JOB_STORE_ID = 9;
/** 1 while the record is in use; published with Atomics.store, pairs with a restarted actor's scan. */
export const JOB_LIVE_WORD = 10;
/** Bits: one for each rank whose worker side has to report. */
export const JOB_RANKS = 11;
/** REQUEST_LIFE when the job was written: what was saved in one life may have left the pool before the next saves it. */
export const JOB_LIFE = 12;
/** Bits: one for each rank that was handed the job. A restarted scheduler cancels others: a save's step may never have run. */
export const JOB_HANDED_OUT = 13;
/** Counts the uses of the record; messages about a job carry it, so that a late copy never counts for the record's next job. */
export const JOB_TICKET = 14;
/** For a save: `SavePlanInput.promptTokens`, or NONE when it is not known. */
export const JOB_PROMPT_TOKENS = 15;

/**
 * Line 1 — first page of the job's block row of each group. The row holds blocks from chunk `first` on and then blocks that are
 * only pinned: for a save the rest of the request's blocks (those behind, then those before). A restarted scheduler pins them
 * again. Where transfers are planned (`HitRules.uniform` false) it holds the request's whole row, from chunk 0 on.
 */
export const JOB_BLOCK_PAGE = 16;

/**
 * Line 2 — written by the loader or saver while the record is live; cleared by the scheduler side before it publishes the
 * record. {epoch, state}: pairs with the loads of a successor and of a restarted worker side.
 */
export const JOB_STATE_WORD = 32;
export const JOB_STATE_NEW = 0;
export const JOB_STATE_TAKEN = 1;
export const JOB_STATE_DONE = 2;
/** Bits: one for each rank that loader or saver has reported. A restarted scheduler does not wait for these again. */
export const JOB_ANSWERED_WORD = 33;

/** Line 3 — written by the scheduler side: blocks in the job's row of each group. */
export const JOB_GROUP_BLOCKS = 48;
/** Line 4 — written by the scheduler side, for a load: see REQUEST_TAIL_TOKENS. */
export const JOB_TAIL_TOKENS = 64;
/**
 * Line 5 — written by the scheduler side, for a save: a row of (group, block, tokens), blocks that hold the states at the end of
 * a prefix of `tokens` tokens (vLLM's boundary puts). First page or NONE, and how many there are.
 */
export const JOB_BOUNDARY_PAGE = 80;
export const JOB_BOUNDARY_PUTS = 81;

export function epochState(epoch: number, state: number): number {
  return ((epoch & 0xffffff) << 8) | state;
}
export function stateOf(word: number): number {
  return word & 0xff;
}

// Step buffers: what the scheduler asks the model to compute in one scheduling step, and what comes back.
export const STEP_HEADER_WORDS = 16;
export const STEP_SEQUENCES = 0;
export const STEP_NUMBER = 1;

export const TOP_LOGPROBS_MAX = 20;
export const SEQUENCE_WORDS = 64;
/** Written by the scheduler. */
export const SEQUENCE_SLOT = 0;
export const SEQUENCE_GENERATION = 1;
/** Position of the first token to compute, and how many tokens from there. */
export const SEQUENCE_START = 2;
export const SEQUENCE_TOKENS = 3;
/** 1 when the last token's logits are to be sampled. */
export const SEQUENCE_SAMPLE = 4;
/** Written by the model. */
export const SEQUENCE_TOKEN = 16;
export const SEQUENCE_LOGPROB_F32 = 17;
/** 64-bit hash of the raw logits, as two words: equal bits give equal hashes. */
export const SEQUENCE_LOGITS_HASH = 18;
export const SEQUENCE_TOP_COUNT = 20;
export const SEQUENCE_TOP_TOKENS = 24;
export const SEQUENCE_TOP_LOGPROBS_F32 = 24 + TOP_LOGPROBS_MAX;

export function stepWords(sequencesMax: number): number {
  return STEP_HEADER_WORDS + sequencesMax * SEQUENCE_WORDS;
}

// Top log-probabilities: a ring of rows that `tokenGenerated` messages name, for requests that asked for them. Written by
// the scheduler before it sends the message, read by the front end when it takes the message.
export const LOGPROBS_HEADER_WORDS = LINE_WORDS;
/** Rows written so far (wraps). A successor of a dead scheduler goes on from it, so that unread rows stay whole. */
export const LOGPROBS_WRITTEN_WORD = 0;

export const LOGPROB_ROW_WORDS = 3 * LINE_WORDS;
/** Which token of which request the row belongs to: a reader that comes too late sees that the row was used again. */
export const LOGPROB_SLOT = 0;
export const LOGPROB_GENERATION = 1;
export const LOGPROB_INDEX = 2;
export const LOGPROB_COUNT = 3;
export const LOGPROB_TOKENS = 4;
export const LOGPROB_LOGPROBS_F32 = 4 + TOP_LOGPROBS_MAX;
