import {
  JOB_BLOCK_PAGE,
  JOB_BOUNDARY_PAGE,
  JOB_BOUNDARY_PUTS,
  JOB_CHUNK_FIRST,
  JOB_GROUP_BLOCKS,
  JOB_KIND,
  JOB_KIND_SAVE,
  JOB_LIVE_WORD,
  NONE,
  REQUEST_BLOCK_PAGE,
} from "../blocks/layout.ts";
import { ChainCursor } from "../blocks/page-arena.ts";
import type { PageAllocator } from "../blocks/page-arena.ts";
import type { Tables } from "../blocks/tables.ts";
import { BOUNDARY_PUT_WORDS } from "./boundary-puts.ts";
import type { BoundaryPuts } from "./boundary-puts.ts";

/** Copies of request rows for jobs: a request's own row changes when it is preempted while an engine is still at work. */
export class JobRows {
  readonly #tables: Tables;
  readonly #pages: PageAllocator;
  readonly #from: ChainCursor;
  readonly #to: ChainCursor;
  /** The block ids of one row in the order of the request's chunks, without null blocks; valid until the next call. */
  ids: Int32Array;

  constructor(tables: Tables, pages: PageAllocator) {
    const { tokensPerRequestMax, blockSize, groupSpanTokens } = tables.dimensions;
    const span = Math.min(blockSize, ...(groupSpanTokens ?? []));
    this.#tables = tables;
    this.#pages = pages;
    this.#from = new ChainCursor(tables.blocks);
    this.#to = new ChainCursor(tables.blocks);
    this.ids = new Int32Array(Math.ceil(tokensPerRequestMax / span) + 1);
  }

  /** Pages for rows of `entries` blocks, by group, and for the boundary puts. */
  pagesFor(entries: ArrayLike<number>, boundaryPuts: number): number {
    let pages = boundaryPuts === 0 ? 0 : this.#pages.pagesFor(boundaryPuts * BOUNDARY_PUT_WORDS);
    for (let group = 0; group < this.#tables.dimensions.groups; group++)
      pages += this.#pages.pagesFor(entries[group]!);
    return pages;
  }
  /** Of these, the pages beyond the first of each row. */
  furtherPagesFor(entries: ArrayLike<number>, boundaryPuts: number): number {
    const rows = this.#tables.dimensions.groups + (boundaryPuts === 0 ? 0 : 1);
    return this.pagesFor(entries, boundaryPuts) - rows;
  }
  furtherPagesOf(job: number): number {
    const at = this.#tables.job(job);
    const { jobs, dimensions } = this.#tables;
    const entries = jobs.subarray(at + JOB_GROUP_BLOCKS, at + JOB_GROUP_BLOCKS + dimensions.groups);
    return this.furtherPagesFor(entries, jobs[at + JOB_BOUNDARY_PUTS]!);
  }

  /** Pages for the job's rows; false (and nothing taken) when the arena has too few. */
  allocate(job: number, entries: ArrayLike<number>, boundaryPuts: number): boolean {
    if (this.pagesFor(entries, boundaryPuts) > this.#pages.freePages()) return false;
    const { jobs, dimensions } = this.#tables;
    const at = this.#tables.job(job);
    for (let group = 0; group < dimensions.groups; group++) {
      jobs[at + JOB_BLOCK_PAGE + group] = this.#pages.allocate(entries[group]!);
      jobs[at + JOB_GROUP_BLOCKS + group] = entries[group]!;
    }
    jobs[at + JOB_BOUNDARY_PAGE] =
      boundaryPuts === 0 ? NONE : this.#pages.allocate(boundaryPuts * BOUNDARY_PUT_WORDS);
    jobs[at + JOB_BOUNDARY_PUTS] = boundaryPuts;
    return true;
  }

  free(job: number): void {
    const { jobs, dimensions } = this.#tables;
    const at = this.#tables.job(job);
    for (let group = 0; group < dimensions.groups; group++) {
      this.#pages.free(jobs[at + JOB_BLOCK_PAGE + group]!);
      jobs[at + JOB_BLOCK_PAGE + group] = NONE;
    }
    if (jobs[at + JOB_BOUNDARY_PUTS] !== 0) this.#pages.free(jobs[at + JOB_BOUNDARY_PAGE]!);
    jobs[at + JOB_BOUNDARY_PAGE] = NONE;
    jobs[at + JOB_BOUNDARY_PUTS] = 0;
  }

  /**
   * Copies the request's row of `group` from the job's first chunk on, and then, for a save, the blocks before that: the job
   * works on the leading ones, the rest are only held. Leaves the ids in `ids` and returns how many there are.
   */
  copy(job: number, slot: number, group: number): number {
    const words = this.#tables.blocks.words;
    const at = this.#tables.job(job);
    const source = this.#tables.requests[this.#tables.request(slot) + REQUEST_BLOCK_PAGE + group]!;
    const entries = this.#tables.jobs[at + JOB_GROUP_BLOCKS + group]!;
    if (entries === 0) return 0;
    const before = this.#before(at);
    this.#to.seek(this.#tables.jobs[at + JOB_BLOCK_PAGE + group]!, 0);
    this.#from.seek(source, this.#tables.jobs[at + JOB_CHUNK_FIRST]!);
    for (let index = before; index < entries; index++)
      words[this.#to.advance()] = words[this.#from.advance()]!;
    this.#from.seek(source, 0);
    for (let index = 0; index < before; index++)
      words[this.#to.advance()] = words[this.#from.advance()]!;
    return this.read(job, group);
  }

  /** Reads a job's row back into `ids`, in order of chunks; returns how many blocks there are. */
  read(job: number, group: number): number {
    const at = this.#tables.job(job);
    const entries = this.#tables.jobs[at + JOB_GROUP_BLOCKS + group]!;
    if (entries === 0) return 0;
    if (entries > this.ids.length) this.ids = new Int32Array(2 * entries);
    const before = this.#before(at);
    const { words } = this.#tables.blocks;
    const cursor = this.#to.seek(this.#tables.jobs[at + JOB_BLOCK_PAGE + group]!, 0);
    let count = entries;
    for (let index = 0; index < entries; index++) {
      const block = words[cursor.advance()]!;
      this.ids[index < entries - before ? index + before : index - (entries - before)] = block;
      if (block === 0) count--;
    }
    return count === entries ? count : this.#withoutNull(entries);
  }

  /** Puts the boundary puts into the job's row for them. */
  writeBoundaries(job: number, puts: BoundaryPuts): void {
    const at = this.#tables.job(job);
    if (puts.count === 0) return;
    const cursor = this.#to.seek(this.#tables.jobs[at + JOB_BOUNDARY_PAGE]!, 0);
    for (let word = 0; word < puts.count * BOUNDARY_PUT_WORDS; word++)
      this.#tables.blocks.words[cursor.advance()] = puts.words[word]!;
  }

  /** Reads the blocks of the boundary puts into `ids`; returns how many there are. */
  readBoundaries(job: number): number {
    const at = this.#tables.job(job);
    const puts = this.#tables.jobs[at + JOB_BOUNDARY_PUTS]!;
    if (puts === 0) return 0;
    if (puts > this.ids.length) this.ids = new Int32Array(2 * puts);
    const cursor = this.#to.seek(this.#tables.jobs[at + JOB_BOUNDARY_PAGE]!, 0);
    for (let put = 0; put < puts; put++) {
      cursor.advance();
      this.ids[put] = this.#tables.blocks.words[cursor.advance()]!;
      cursor.advance();
    }
    return puts;
  }

  /** Blocks of the row that lie before the job's first chunk and are only held: all of them for a save, none for a load. */
  #before(at: number): number {
    const { jobs } = this.#tables;
    return jobs[at + JOB_KIND] === JOB_KIND_SAVE ? jobs[at + JOB_CHUNK_FIRST]! : 0;
  }

  /** Null blocks stand for blocks outside of a window: nobody holds them. */
  #withoutNull(entries: number): number {
    let count = 0;
    for (let index = 0; index < entries; index++)
      if (this.ids[index] !== 0) this.ids[count++] = this.ids[index]!;
    return count;
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
    if (tables.jobs[at + JOB_BOUNDARY_PUTS] !== 0) yield tables.jobs[at + JOB_BOUNDARY_PAGE]!;
  }
}
