import {
  JOB_BLOCK_PAGE,
  JOB_CHUNK_FIRST,
  JOB_LIVE_WORD,
  NONE,
  REQUEST_BLOCK_PAGE,
} from "../blocks/layout.ts";
import { ChainCursor } from "../blocks/page-arena.ts";
import type { PageAllocator } from "../blocks/page-arena.ts";
import type { Tables } from "../blocks/tables.ts";

/** Copies of request rows for jobs: a request's own row changes when it is preempted while an engine is still at work. */
export class JobRows {
  readonly #tables: Tables;
  readonly #pages: PageAllocator;
  readonly #from: ChainCursor;
  readonly #to: ChainCursor;
  /** The block ids of one row in the order of the request's chunks; valid until the next call. */
  readonly ids: Int32Array;

  constructor(tables: Tables, pages: PageAllocator) {
    const { tokensPerRequestMax, blockSize } = tables.dimensions;
    this.#tables = tables;
    this.#pages = pages;
    this.#from = new ChainCursor(tables.blocks);
    this.#to = new ChainCursor(tables.blocks);
    this.ids = new Int32Array(Math.ceil(tokensPerRequestMax / blockSize) + 1);
  }

  pagesFor(entries: number): number {
    return this.#pages.pagesFor(entries) * this.#tables.dimensions.groups;
  }

  /** Pages for rows of `entries` in every group of the job; false (and nothing taken) when the arena has too few. */
  allocate(job: number, entries: number): boolean {
    if (this.pagesFor(entries) > this.#pages.freePages()) return false;
    const at = this.#tables.job(job) + JOB_BLOCK_PAGE;
    for (let group = 0; group < this.#tables.dimensions.groups; group++)
      this.#tables.jobs[at + group] = this.#pages.allocate(entries);
    return true;
  }

  free(job: number): void {
    const at = this.#tables.job(job) + JOB_BLOCK_PAGE;
    for (let group = 0; group < this.#tables.dimensions.groups; group++) {
      this.#pages.free(this.#tables.jobs[at + group]!);
      this.#tables.jobs[at + group] = NONE;
    }
  }

  /**
   * Copies blocks [first, end) of the request's row of `group` and then [0, before): the job works on the leading ones, the
   * rest are only held. Leaves the ids in `ids`, in order of chunks.
   */
  copy(job: number, slot: number, group: number, first: number, end: number, before: number): void {
    const words = this.#tables.blocks.words;
    const source = this.#tables.requests[this.#tables.request(slot) + REQUEST_BLOCK_PAGE + group]!;
    this.#to.seek(this.#tables.jobs[this.#tables.job(job) + JOB_BLOCK_PAGE + group]!, 0);
    this.#from.seek(source, first);
    for (let chunk = first; chunk < end; chunk++) {
      const block = words[this.#from.advance()]!;
      words[this.#to.advance()] = block;
      this.ids[before + chunk - first] = block;
    }
    this.#from.seek(source, 0);
    for (let chunk = 0; chunk < before; chunk++) {
      const block = words[this.#from.advance()]!;
      words[this.#to.advance()] = block;
      this.ids[chunk] = block;
    }
  }

  /** Reads a job's row of `entries` back into `ids`, in order of chunks. */
  read(job: number, group: number, entries: number, before: number): void {
    const at = this.#tables.job(job);
    this.#to.seek(this.#tables.jobs[at + JOB_BLOCK_PAGE + group]!, 0);
    for (let index = 0; index < entries; index++) {
      const place = index < entries - before ? index + before : index - (entries - before);
      this.ids[place] = this.#tables.blocks.words[this.#to.advance()]!;
    }
  }

  /** Blocks of the row that lie before the job's first chunk and are only held: all of them for a save, none for a load. */
  before(job: number, save: boolean): number {
    return save ? this.#tables.jobs[this.#tables.job(job) + JOB_CHUNK_FIRST]! : 0;
  }
}

/** First pages of the rows of all live jobs: what a successor's page allocator has to adopt besides the request rows. */
export function* jobChains(tables: Tables): Iterable<number> {
  for (let job = 0; job < tables.dimensions.jobSlots; job++) {
    const at = tables.job(job);
    // Pairs with the store in `Jobs`: a live record's rows are whole.
    if (Atomics.load(tables.jobs, at + JOB_LIVE_WORD) === 0) continue;
    for (let group = 0; group < tables.dimensions.groups; group++)
      yield tables.jobs[at + JOB_BLOCK_PAGE + group]!;
  }
}
