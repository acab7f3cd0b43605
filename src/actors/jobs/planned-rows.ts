import {
  JOB_BLOCK_PAGE,
  JOB_BOUNDARY_PAGE,
  JOB_BOUNDARY_PUTS,
  JOB_GROUP_BLOCKS,
  JOB_HASH_PAGE,
  JOB_TAIL_TOKENS,
  NONE,
} from "../../blocks/layout.ts";
import { ChainCursor } from "../../blocks/page-arena.ts";
import type { PageArena } from "../../blocks/page-arena.ts";
import type { Tables } from "../../blocks/tables.ts";
import { BOUNDARY_PUT_WORDS } from "../../connector/boundary-puts.ts";
import type { BoundaryPut } from "../../connector/worker/save-job.ts";
import { brokenInvariant } from "../../errors.ts";

/** Reads the rows of planned jobs: they hold the request's whole row of each group, from chunk 0. */
export class PlannedRows {
  readonly #tables: Tables;
  readonly #groups: number;
  readonly #cursor: ChainCursor;

  constructor(tables: Tables) {
    this.#tables = tables;
    this.#groups = tables.dimensions.groups;
    this.#cursor = new ChainCursor(tables.blocks);
  }

  /** Per group, the block ids; 0 where there is none. A copy. */
  blocks(job: number): Int32Array[] {
    const { jobs, blocks } = this.#tables;
    const at = this.#tables.job(job);
    return Array.from({ length: this.#groups }, (_, group) => {
      const row = new Int32Array(jobs[at + JOB_GROUP_BLOCKS + group]!);
      if (row.length === 0) return row;
      this.#cursor.seek(jobs[at + JOB_BLOCK_PAGE + group]!, 0);
      for (let index = 0; index < row.length; index++)
        row[index] = blocks.words[this.#cursor.advance()]!;
      return row;
    });
  }

  tailTokens(job: number): number[] {
    const at = this.#tables.job(job) + JOB_TAIL_TOKENS;
    return Array.from(this.#tables.jobs.subarray(at, at + this.#groups));
  }

  boundaryPuts(job: number): BoundaryPut[] {
    const { jobs, blocks } = this.#tables;
    const at = this.#tables.job(job);
    const count = jobs[at + JOB_BOUNDARY_PUTS]!;
    if (count === 0) return [];
    this.#cursor.seek(jobs[at + JOB_BOUNDARY_PAGE]!, 0);
    const words = Array.from(
      { length: count * BOUNDARY_PUT_WORDS },
      () => blocks.words[this.#cursor.advance()]!,
    );
    return Array.from({ length: count }, (_, put) => {
      const [group = 0, block = 0, tokens = 0] = words.slice(put * BOUNDARY_PUT_WORDS);
      return { group, block, tokens };
    });
  }

  hashRows(job: number): HashRows {
    const { jobs, hashes } = this.#tables;
    return new HashRows(hashes, jobs[this.#tables.job(job) + JOB_HASH_PAGE]!);
  }
}

/** Rows in the arena of a request's hashes by their number: the pages of its chain, listed once. */
export class HashRows {
  readonly #pages: number[] = [];
  readonly #perPage: number;

  constructor(hashes: PageArena, first: number) {
    this.#perPage = hashes.entriesPerPage;
    for (let page = first; page !== NONE; page = hashes.next(page)) this.#pages.push(page);
  }

  row(hash: number): number {
    const page = this.#pages[Math.floor(hash / this.#perPage)];
    if (page === undefined) brokenInvariant("the request has no room for this hash", hash);
    return page * this.#perPage + (hash % this.#perPage);
  }
}
