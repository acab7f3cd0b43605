import { blockRowPages, logprobRows } from "./capacities.ts";
import {
  BLOCK_PAGE_WORDS,
  HASH_PAGE_WORDS,
  HASH_STRIDE_WORDS,
  HASHES_PER_PAGE,
  JOB_WORDS,
  LOGPROB_ROW_WORDS,
  LOGPROBS_HEADER_WORDS,
  REQUEST_GROUP_BLOCKS,
  REQUEST_WORDS,
  stepWords,
  TOKEN_PAGE_WORDS,
  TOKENS_PER_PAGE,
} from "./layout.ts";
import { hashableBlocks } from "./hashing.ts";
import type { BlockEncoding } from "./hashing.ts";
import { PageArena } from "./page-arena.ts";

/** Sizes of the shared tables, as counts, and how their rows are hashed. */
export interface TableDimensions {
  /** Requests that may be waiting, running or draining at a time. */
  readonly requestSlots: number;
  /** Loads and saves that may be in flight at a time. */
  readonly jobSlots: number;
  /** Most tokens of one request (prompt and answer). */
  readonly tokensPerRequestMax: number;
  /** Tokens of all requests in the tables together: prompt plus room for the answer. */
  readonly tokensMax: number;
  readonly hashBlockSize: number;
  /** Tokens after a hash block that its hash covers too; 0 for none. */
  readonly hashLookaheadTokens: number;
  /** Of the extra elements in the token arena: what the hash algorithm reads. */
  readonly extraEncoding: BlockEncoding;
  /** Tokens of a chunk: whole blocks in every group. */
  readonly blockSize: number;
  readonly groups: number;
  /** Tokens of one block of each group; divides `blockSize`. Default: `blockSize` in every group. */
  readonly groupSpanTokens?: readonly number[];
  /** KV blocks of the serving loop. */
  readonly blockCount: number;
  /** Sequences in one scheduling step; 0 when the serving loop runs its own model. */
  readonly stepSequencesMax: number;
}

/** The shared memory itself: plain data that can be posted to a worker. */
export interface TableBuffers {
  readonly dimensions: TableDimensions;
  readonly requests: SharedArrayBuffer;
  readonly jobs: SharedArrayBuffer;
  readonly blockPages: SharedArrayBuffer;
  readonly tokenPages: SharedArrayBuffer;
  readonly hashPages: SharedArrayBuffer;
  readonly steps: SharedArrayBuffer;
  readonly logprobs: SharedArrayBuffer;
}

/** Number of step buffers: one is being computed while the next is filled. */
export const STEP_BUFFERS = 2;

export function createTableBuffers(dimensions: TableDimensions): TableBuffers {
  const words = (count: number): SharedArrayBuffer => new SharedArrayBuffer(Math.max(1, count) * 4);
  const { requestSlots, jobSlots } = dimensions;
  const tokenPages = Math.ceil(dimensions.tokensMax / TOKENS_PER_PAGE) + 2 * requestSlots;
  const hashPages =
    Math.ceil(dimensions.tokensMax / dimensions.hashBlockSize / HASHES_PER_PAGE) + requestSlots;
  return {
    dimensions,
    requests: words(requestSlots * REQUEST_WORDS),
    jobs: words(jobSlots * JOB_WORDS),
    blockPages: words(blockRowPages(dimensions) * BLOCK_PAGE_WORDS),
    tokenPages: words(tokenPages * TOKEN_PAGE_WORDS),
    hashPages: words(hashPages * HASH_PAGE_WORDS),
    steps: words(STEP_BUFFERS * stepWords(Math.max(1, dimensions.stepSequencesMax))),
    logprobs: words(
      LOGPROBS_HEADER_WORDS +
        LOGPROB_ROW_WORDS * logprobRows(requestSlots, dimensions.stepSequencesMax),
    ),
  };
}

/** One thread's view of the shared tables. Cheap to make; every thread makes its own over the same buffers. */
export class Tables {
  readonly dimensions: TableDimensions;
  readonly requests: Int32Array;
  readonly requestsF32: Float32Array;
  readonly jobs: Int32Array;
  readonly steps: Int32Array;
  readonly stepsF32: Float32Array;
  /** Top log-probabilities (logprob-rows.ts). */
  readonly logprobs: Int32Array;
  readonly logprobsF32: Float32Array;
  /** Block-table rows and job rows. */
  readonly blocks: PageArena;
  readonly tokens: PageArena;
  readonly hashes: PageArena;

  constructor(buffers: TableBuffers) {
    this.dimensions = buffers.dimensions;
    this.requests = new Int32Array(buffers.requests);
    this.requestsF32 = new Float32Array(buffers.requests);
    this.jobs = new Int32Array(buffers.jobs);
    this.steps = new Int32Array(buffers.steps);
    this.stepsF32 = new Float32Array(buffers.steps);
    this.logprobs = new Int32Array(buffers.logprobs);
    this.logprobsF32 = new Float32Array(buffers.logprobs);
    this.blocks = new PageArena(new Int32Array(buffers.blockPages), BLOCK_PAGE_WORDS, 1);
    this.tokens = new PageArena(new Int32Array(buffers.tokenPages), TOKEN_PAGE_WORDS, 1);
    this.hashes = new PageArena(
      new Int32Array(buffers.hashPages),
      HASH_PAGE_WORDS,
      HASH_STRIDE_WORDS,
    );
  }

  /** Hash blocks of a request's first `tokens` tokens. */
  hashableBlocks(tokens: number): number {
    const { hashBlockSize, hashLookaheadTokens } = this.dimensions;
    return hashableBlocks(tokens, hashBlockSize, hashLookaheadTokens);
  }

  /** Word offset of a request record. */
  request(slot: number): number {
    return slot * REQUEST_WORDS;
  }
  /** Blocks in the request's row of the group. */
  rowBlocks(slot: number, group: number): number {
    return this.requests[slot * REQUEST_WORDS + REQUEST_GROUP_BLOCKS + group]!;
  }
  job(job: number): number {
    return job * JOB_WORDS;
  }
  /** Word offset of step buffer `step`. */
  step(step: number): number {
    return step * stepWords(Math.max(1, this.dimensions.stepSequencesMax));
  }
}
