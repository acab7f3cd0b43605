import { brokenInvariant } from "../errors.ts";
import { NONE, PAGE_HEADER_WORDS, PAGE_NEXT } from "./layout.ts";

/**
 * Readers' and writers' face of an arena of fixed-size pages (layout.ts, "Pages"). Which pages are free is known to the
 * allocating thread alone (PageAllocator); chains are published by whoever publishes the record that names the first page.
 */
export class PageArena {
  readonly words: Int32Array;
  readonly pageWords: number;
  /** Words of one entry: 1 for block ids and tokens, 8 for hashes. */
  readonly entryWords: number;
  readonly entriesPerPage: number;
  readonly pages: number;

  constructor(words: Int32Array, pageWords: number, entryWords: number) {
    this.words = words;
    this.pageWords = pageWords;
    this.entryWords = entryWords;
    this.entriesPerPage = Math.floor((pageWords - PAGE_HEADER_WORDS) / entryWords);
    this.pages = Math.floor(words.length / pageWords);
  }

  next(page: number): number {
    return this.words[page * this.pageWords + PAGE_NEXT]!;
  }

  /** Word offset of entry `index` of the chain that starts at `page`. Walks the chain: use a ChainCursor for sequences. */
  offset(page: number, index: number): number {
    let at = page;
    let left = index;
    while (left >= this.entriesPerPage) {
      at = this.next(at);
      left -= this.entriesPerPage;
    }
    if (at === NONE) brokenInvariant("page chain is shorter than the index", index);
    return at * this.pageWords + PAGE_HEADER_WORDS + left * this.entryWords;
  }

  /** Row number of an entry in the whole arena: what native code calls a hash row. */
  row(page: number, index: number): number {
    let at = page;
    let left = index;
    while (left >= this.entriesPerPage) {
      at = this.next(at);
      left -= this.entriesPerPage;
    }
    if (at === NONE) brokenInvariant("page chain is shorter than the index", index);
    return at * this.entriesPerPage + left;
  }

  get(page: number, index: number): number {
    return this.words[this.offset(page, index)]!;
  }
  set(page: number, index: number, value: number): void {
    this.words[this.offset(page, index)] = value;
  }
}

/** Walks a chain entry by entry without looking at its start again. Reused: `seek` allocates nothing. */
export class ChainCursor {
  readonly #arena: PageArena;
  #page = NONE;
  #index = 0;

  constructor(arena: PageArena) {
    this.#arena = arena;
  }

  seek(page: number, index: number): this {
    const perPage = this.#arena.entriesPerPage;
    let left = index;
    let at = page;
    while (left >= perPage && at !== NONE) {
      at = this.#arena.next(at);
      left -= perPage;
    }
    this.#page = at;
    this.#index = left;
    return this;
  }

  /** Word offset of the current entry; then moves on. */
  advance(): number {
    if (this.#index === this.#arena.entriesPerPage) {
      this.#page = this.#arena.next(this.#page);
      this.#index = 0;
    }
    if (this.#page === NONE) brokenInvariant("page chain ends before the row does");
    return (
      this.#page * this.#arena.pageWords +
      PAGE_HEADER_WORDS +
      this.#index++ * this.#arena.entryWords
    );
  }

  /** Row number of the current entry (see PageArena.row); then moves on. */
  advanceRow(): number {
    const offset = this.advance();
    const page = Math.floor(offset / this.#arena.pageWords);
    return (
      page * this.#arena.entriesPerPage +
      (offset - page * this.#arena.pageWords - PAGE_HEADER_WORDS) / this.#arena.entryWords
    );
  }
}

/** Owner of an arena's free list: one thread. */
export class PageAllocator {
  readonly arena: PageArena;
  readonly #free: Int32Array;
  #freeCount: number;

  constructor(arena: PageArena) {
    this.arena = arena;
    this.#free = new Int32Array(arena.pages);
    for (let page = 0; page < arena.pages; page++) this.#free[page] = arena.pages - 1 - page;
    this.#freeCount = arena.pages;
  }

  freePages(): number {
    return this.#freeCount;
  }
  usedPages(): number {
    return this.arena.pages - this.#freeCount;
  }
  pagesFor(entries: number): number {
    return Math.max(1, Math.ceil(entries / this.arena.entriesPerPage));
  }

  /** First page of a new chain with room for `entries`, or NONE when the arena cannot hold it (nothing is taken then). */
  allocate(entries: number): number {
    const pages = this.pagesFor(entries);
    if (pages > this.#freeCount) return NONE;
    let first = NONE;
    for (let index = 0; index < pages; index++) {
      const page = this.#free[--this.#freeCount]!;
      this.arena.words[page * this.arena.pageWords + PAGE_NEXT] = first;
      first = page;
    }
    return first;
  }

  /** Adds room to a chain that now holds `entries` so that it holds `wanted`. False: no room, nothing changed. */
  extend(first: number, entries: number, wanted: number): boolean {
    const missing = this.pagesFor(wanted) - this.pagesFor(entries);
    if (missing <= 0) return true;
    if (missing > this.#freeCount) return false;
    let last = first;
    for (let next = this.arena.next(last); next !== NONE; next = this.arena.next(last)) last = next;
    this.arena.words[last * this.arena.pageWords + PAGE_NEXT] = this.allocate(
      missing * this.arena.entriesPerPage,
    );
    return true;
  }

  /** Marks the pages of an existing chain as used: a successor of a dead owner rebuilds its free list with it. */
  adopt(chains: Iterable<number>): void {
    const used = new Uint8Array(this.arena.pages);
    for (const first of chains)
      for (let page = first; page !== NONE; page = this.arena.next(page)) used[page] = 1;
    this.#freeCount = 0;
    for (let page = this.arena.pages - 1; page >= 0; page--)
      if (used[page] === 0) this.#free[this.#freeCount++] = page;
  }

  free(first: number): void {
    for (let page = first; page !== NONE;) {
      const next = this.arena.next(page);
      if (this.#freeCount === this.#free.length) brokenInvariant("page freed twice", page);
      this.#free[this.#freeCount++] = page;
      page = next;
    }
  }
}
