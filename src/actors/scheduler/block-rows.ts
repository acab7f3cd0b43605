import {
  NONE,
  REQUEST_BLOCK_PAGE,
  REQUEST_GROUP_BLOCKS,
  REQUEST_HASH_PAGE,
} from "../../blocks/layout.ts";
import { ChainCursor, type PageAllocator } from "../../blocks/page-arena.ts";
import type { Tables } from "../../blocks/tables.ts";
import { brokenInvariant } from "../../errors.ts";
import type { BlockAllocator } from "./block-allocator.ts";
import type { LocalCacheEvents } from "./local-cache-events.ts";
import type { RequestStates } from "./request-states.ts";

/** Block rows of requests: one chain of pages a group, in step with the allocator's references. */
export class BlockRows {
  /** Of the last `findHits`: how many of the found block ids lie in the free queue (taking them uses them up). */
  hitsFree = 0;
  readonly #tables: Tables;
  readonly #states: RequestStates;
  readonly #allocator: BlockAllocator;
  readonly #pages: PageAllocator;
  readonly #events: LocalCacheEvents | null;
  readonly #groups: number;
  readonly #hashesPerBlock: number;
  /** Block ids of the last `findHits`, or of one group's row: [block][group], or [block]. */
  readonly #ids: Int32Array;
  readonly #rowCursor: ChainCursor;
  readonly #hashCursor: ChainCursor;

  constructor(
    tables: Tables,
    states: RequestStates,
    allocator: BlockAllocator,
    pages: PageAllocator,
    events: LocalCacheEvents | null = null,
  ) {
    const { groups, blockSize, hashBlockSize, tokensPerRequestMax } = tables.dimensions;
    this.#tables = tables;
    this.#states = states;
    this.#allocator = allocator;
    this.#pages = pages;
    this.#events = events;
    this.#groups = groups;
    this.#hashesPerBlock = blockSize / hashBlockSize;
    this.#ids = new Int32Array((Math.ceil(tokensPerRequestMax / blockSize) + 1) * groups);
    this.#rowCursor = new ChainCursor(tables.blocks);
    this.#hashCursor = new ChainCursor(tables.hashes);
  }

  /** Leading blocks of the request, at most `blocksMax`, that the local prefix cache holds in all groups. */
  findHits(slot: number, blocksMax: number): number {
    const ratio = this.#hashesPerBlock;
    const limit = Math.min(blocksMax, Math.floor(this.#states.hashedBlocks[slot]! / ratio));
    this.hitsFree = 0;
    if (limit <= 0) return 0;
    const words = this.#tables.hashes.words;
    const cursor = this.#hashCursor.seek(this.#request(slot, REQUEST_HASH_PAGE), 0);
    for (let block = 0; block < limit; block++) {
      let offset = 0;
      for (let part = 0; part < ratio; part++) offset = cursor.advance();
      let free = 0;
      for (let group = 0; group < this.#groups; group++) {
        const id = this.#allocator.cache.find(words, offset, group);
        if (id === NONE) return block;
        this.#ids[block * this.#groups + group] = id;
        if (this.#allocator.isFree(id)) free++;
      }
      this.hitsFree += free;
    }
    return limit;
  }

  /** Opens the row with the first `hits` blocks of the last `findHits`. False: no pages, nothing taken. */
  open(slot: number, hits: number): boolean {
    const record = this.#tables.request(slot);
    const words = this.#tables.requests;
    for (let group = 0; group < this.#groups; group++) {
      const page = this.#pages.allocate(hits);
      if (page === NONE) {
        for (let opened = 0; opened < group; opened++)
          this.#pages.free(words[record + REQUEST_BLOCK_PAGE + opened]!);
        this.#clear(slot);
        return false;
      }
      words[record + REQUEST_BLOCK_PAGE + group] = page;
      const cursor = this.#rowCursor.seek(page, 0);
      for (let block = 0; block < hits; block++) {
        const id = this.#ids[block * this.#groups + group]!;
        this.#allocator.reference(id);
        this.#tables.blocks.words[cursor.advance()] = id;
      }
    }
    this.#setBlocks(slot, hits);
    return true;
  }

  /** Makes the row `blocks` long. False: too few blocks or pages are free; nothing is taken then. */
  grow(slot: number, blocks: number): boolean {
    const have = this.#states.blocks[slot]!;
    if (blocks <= have) return true;
    if ((blocks - have) * this.#groups > this.#allocator.freeBlocks()) return false;
    const arena = this.#tables.blocks;
    for (let group = 0; group < this.#groups; group++)
      if (!this.#pages.extend(this.#page(slot, group), this.#room(slot, group, have), blocks))
        return false;
    for (let group = 0; group < this.#groups; group++) {
      const cursor = this.#rowCursor.seek(this.#page(slot, group), have);
      for (let block = have; block < blocks; block++)
        arena.words[cursor.advance()] = this.#allocator.allocate();
    }
    this.#setBlocks(slot, blocks);
    return true;
  }

  /** Lets go of all blocks, last first, and of the row's pages, unless another keeps these. Does nothing without a row. */
  close(slot: number, lent = false): void {
    const page = this.#page(slot, 0);
    if (page === NONE) return;
    const blocks = this.#states.blocks[slot]!;
    for (let group = this.#groups - 1; group >= 0; group--) {
      const first = this.#page(slot, group);
      const cursor = this.#rowCursor.seek(first, 0);
      for (let block = 0; block < blocks; block++)
        this.#ids[block] = this.#tables.blocks.words[cursor.advance()]!;
      for (let block = blocks - 1; block >= 0; block--) this.#allocator.release(this.#ids[block]!);
      if (!lent) this.#pages.free(first);
    }
    if (lent) this.#states.blocks[slot] = 0;
    else this.#clear(slot);
  }

  /** Enters blocks [from, to) of the request, whose bytes are final, into the local prefix cache. */
  cache(slot: number, from: number, to: number): void {
    const ratio = this.#hashesPerBlock;
    const { hashes, blocks } = this.#tables;
    const page = this.#request(slot, REQUEST_HASH_PAGE);
    for (let group = 0; group < this.#groups; group++) {
      const row = this.#rowCursor.seek(this.#page(slot, group), from);
      let told = from;
      for (let block = from; block < to; block++) {
        const id = blocks.words[row.advance()]!;
        const offset = hashes.offset(page, (block + 1) * ratio - 1);
        const { cache } = this.#allocator;
        // A block that came out of the cache is there already.
        if (!cache.has(id) && cache.insert(id, hashes.words, offset, group)) continue;
        this.#events?.stored(slot, group, told, block);
        told = block + 1;
      }
      this.#events?.stored(slot, group, told, to);
    }
  }

  /** No row: for a slot that was just taken. */
  forget(slot: number): void {
    this.#clear(slot);
  }

  #clear(slot: number): void {
    const record = this.#tables.request(slot);
    for (let group = 0; group < this.#groups; group++)
      this.#tables.requests[record + REQUEST_BLOCK_PAGE + group] = NONE;
    this.#setBlocks(slot, 0);
  }

  #setBlocks(slot: number, blocks: number): void {
    this.#states.blocks[slot] = blocks;
    const at = this.#tables.request(slot) + REQUEST_GROUP_BLOCKS;
    for (let group = 0; group < this.#groups; group++) this.#tables.requests[at + group] = blocks;
  }
  #page(slot: number, group: number): number {
    return this.#request(slot, REQUEST_BLOCK_PAGE + group);
  }
  #request(slot: number, word: number): number {
    const value = this.#tables.requests[this.#tables.request(slot) + word];
    if (value === undefined) brokenInvariant("slot out of range", slot);
    return value;
  }

  /** Entries that the chain has room for, seen from `have` entries: a failed `grow` may have left a page more. */
  #room(slot: number, group: number, have: number): number {
    const arena = this.#tables.blocks;
    let pages = 0;
    for (let page = this.#page(slot, group); page !== NONE; page = arena.next(page)) pages++;
    return Math.max(have, pages * arena.entriesPerPage);
  }
}
