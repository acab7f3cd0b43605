import { NONE } from "../../blocks/layout.ts";
import type { BlockPool } from "../../connector/hooks.ts";
import { brokenInvariant } from "../../errors.ts";
import type { LocalCacheEvents } from "./local-cache-events.ts";
import { PrefixCache } from "./prefix-cache.ts";

/**
 * Owner of the KV blocks: reference counts of requests, pins of jobs, and the queue of free blocks in LRU order. One thread.
 *
 * As in vLLM block 0 is the null block and is never handed out; free blocks keep their bytes and their place in the prefix
 * cache until they are taken from the head of the queue; a hit takes a block out of the queue. A block is free only when no
 * request refers to it AND no job pins it, so whatever an engine may still touch is never handed out.
 */
export class BlockAllocator implements BlockPool {
  /** Who is told of blocks that leave the prefix cache. */
  readonly #events: LocalCacheEvents | null;
  readonly cache: PrefixCache;
  readonly blockCount: number;
  /** Cached blocks that were taken for something else. */
  evictions = 0;
  readonly #references: Int32Array;
  readonly #pins: Int32Array;
  /** Doubly linked queue through index 0 (the null block is never free, so its links are the ends). NONE: not queued. */
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  #free = 0;
  #pinned = 0;

  constructor(blockCount: number, events: LocalCacheEvents | null = null) {
    this.blockCount = blockCount;
    this.#events = events;
    this.cache = new PrefixCache(blockCount);
    this.#references = new Int32Array(blockCount);
    this.#pins = new Int32Array(blockCount);
    this.#next = new Int32Array(blockCount).fill(NONE);
    this.#previous = new Int32Array(blockCount).fill(NONE);
    this.#next[0] = 0;
    this.#previous[0] = 0;
    for (let block = 1; block < blockCount; block++) this.#append(block);
  }

  /** Blocks that can be handed out at all. */
  usableBlocks(): number {
    return this.blockCount - 1;
  }
  freeBlocks(): number {
    return this.#free;
  }
  /** Blocks with at least one pin. */
  pinnedBlocks(): number {
    return this.#pinned;
  }
  isFree(block: number): boolean {
    return this.#next[block] !== NONE && block !== 0;
  }
  references(block: number): number {
    return this.#references[block]!;
  }

  /** The least recently used free block with one reference, out of the prefix cache; NONE when there is none. */
  allocate(): number {
    const block = this.#next[0]!;
    if (block === 0) return NONE;
    this.#unlink(block);
    if (this.#uncache(block)) this.evictions++;
    this.#references[block] = 1;
    return block;
  }

  /** Another request refers to a cached block. */
  reference(block: number): void {
    this.#check(block);
    if (this.isFree(block)) this.#unlink(block);
    this.#references[block]!++;
  }

  /** A request lets go. Call in reverse order of its row: then a prefix is evicted from its end. */
  release(block: number): void {
    this.#check(block);
    if (this.#references[block]! <= 0)
      brokenInvariant("block released more often than taken", block);
    this.#references[block]!--;
    this.#appendIfUnused(block);
  }

  pin(blockIds: Int32Array, count: number): void {
    for (let index = 0; index < count; index++) {
      const block = blockIds[index]!;
      this.#check(block);
      if (this.isFree(block)) this.#unlink(block);
      if (this.#pins[block]!++ === 0) this.#pinned++;
    }
  }

  /** In reverse order, like `release`. */
  unpin(blockIds: Int32Array, count: number): void {
    for (let index = count - 1; index >= 0; index--) {
      const block = blockIds[index]!;
      this.#check(block);
      if (this.#pins[block]! <= 0) brokenInvariant("block unpinned more often than pinned", block);
      if (--this.#pins[block]! > 0) continue;
      this.#pinned--;
      this.#appendIfUnused(block);
    }
  }

  /** Takes every block that no request refers to out of the prefix cache; returns how many. */
  dropCache(): number {
    const before = this.cache.size();
    for (let block = 1; block < this.blockCount; block++)
      if (this.#references[block] === 0) this.#uncache(block);
    if (this.cache.size() === 0) this.#events?.cleared();
    return before - this.cache.size();
  }

  /** Out of the prefix cache. False: it was not there. */
  #uncache(block: number): boolean {
    if (this.#events === null || !this.cache.has(block)) return this.cache.remove(block);
    const { cache } = this;
    this.#events.removed(cache.digests, cache.digestOffset(block), cache.group(block));
    return cache.remove(block);
  }

  #appendIfUnused(block: number): void {
    if (this.#references[block] === 0 && this.#pins[block] === 0) this.#append(block);
  }

  #append(block: number): void {
    const last = this.#previous[0]!;
    this.#next[last] = block;
    this.#previous[block] = last;
    this.#next[block] = 0;
    this.#previous[0] = block;
    this.#free++;
  }

  #unlink(block: number): void {
    const next = this.#next[block]!;
    const previous = this.#previous[block]!;
    this.#next[previous] = next;
    this.#previous[next] = previous;
    this.#next[block] = NONE;
    this.#previous[block] = NONE;
    this.#free--;
  }

  #check(block: number): void {
    if (block <= 0 || block >= this.blockCount) brokenInvariant("block id out of range", block);
  }
}
