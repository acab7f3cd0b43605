import {
  JOB_BLOCK_PAGE,
  JOB_CHUNK_FIRST,
  JOB_CHUNKS,
  JOB_HASH_PAGE,
  NONE,
} from "../../blocks/layout.ts";
import { ChainCursor } from "../../blocks/page-arena.ts";
import type { Tables } from "../../blocks/tables.ts";

/**
 * Walks the entries of a job: chunk by chunk, and within a chunk group by group. Entry e is group e % groups of chunk
 * first + floor(e / groups). Reused for all jobs: allocates nothing after construction.
 */
export class JobCursor {
  /** The current entry, after `advance`. `chunk` is the absolute index in the request. */
  group = 0;
  chunk = 0;
  block = NONE;
  hashRow = NONE;
  readonly #tables: Tables;
  readonly #groups: number;
  readonly #hashesPerBlock: number;
  readonly #hashes: ChainCursor;
  readonly #blocks: readonly ChainCursor[];
  #nextGroup = 0;
  #nextChunk = 0;
  /** `hashRow` belongs to an earlier chunk. */
  #hashBehind = true;

  constructor(tables: Tables) {
    const { groups, blockSize, hashBlockSize } = tables.dimensions;
    this.#tables = tables;
    this.#groups = groups;
    this.#hashesPerBlock = blockSize / hashBlockSize;
    this.#hashes = new ChainCursor(tables.hashes);
    this.#blocks = Array.from({ length: groups }, () => new ChainCursor(tables.blocks));
  }

  entries(job: number): number {
    return this.#tables.jobs[this.#tables.job(job) + JOB_CHUNKS]! * this.#groups;
  }

  seek(job: number, entry: number): this {
    const { jobs } = this.#tables;
    const at = this.#tables.job(job);
    const chunk = Math.floor(entry / this.#groups);
    this.#nextGroup = entry % this.#groups;
    this.#nextChunk = jobs[at + JOB_CHUNK_FIRST]! + chunk;
    this.#hashBehind = true;
    for (let group = 0; group < this.#groups; group++) {
      // Groups before the first one have their entry of this chunk behind them.
      const from = chunk + (group < this.#nextGroup ? 1 : 0);
      this.#blocks[group]!.seek(jobs[at + JOB_BLOCK_PAGE + group]!, from);
    }
    this.#hashes.seek(jobs[at + JOB_HASH_PAGE]!, this.#nextChunk * this.#hashesPerBlock);
    return this;
  }

  advance(): void {
    if (this.#nextGroup === this.#groups) {
      this.#nextGroup = 0;
      this.#nextChunk++;
      this.#hashBehind = true;
    }
    if (this.#hashBehind) {
      // A chunk is named by the hash of its last hash block, which covers everything before it.
      for (let count = 0; count < this.#hashesPerBlock; count++)
        this.hashRow = this.#hashes.advanceRow();
      this.#hashBehind = false;
    }
    this.chunk = this.#nextChunk;
    this.group = this.#nextGroup++;
    this.block = this.#tables.blocks.words[this.#blocks[this.group]!.advance()]!;
  }
}
