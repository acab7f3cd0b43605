import {
  NONE,
  REQUEST_EXTRAS_PAGE,
  REQUEST_HASH_PAGE,
  REQUEST_TOKEN_PAGE,
} from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import { brokenInvariant } from "../../errors.ts";
import { ItemQueue } from "../jobs/item-queue.ts";
import type { ActorContext } from "../step.ts";
import { isCurrent } from "./requests.ts";

/** Blocks hashed for one request before the next has its turn. */
const PIECE_BLOCKS = 256;

/**
 * Hashes the prompts of requests (blocks past them are the scheduler side's, so that a row has one writer at a time). Hashes
 * blocks of requests in bounded pieces, requests in turn, so that one long prompt delays no other. Only requests with an
 * unanswered question are touched: the rows of others may be given to somebody else at any time.
 */
export class PromptHashing {
  readonly #tables: Tables;
  /** By slot: the generation that the numbers are about, blocks hashed and wanted, questions that wait for them. */
  readonly #generation: Int32Array;
  readonly #hashed: Int32Array;
  readonly #wanted: Int32Array;
  readonly #waiting: Int32Array;
  readonly #queue: ItemQueue;

  constructor(tables: Tables) {
    const { requestSlots } = tables.dimensions;
    this.#tables = tables;
    this.#generation = new Int32Array(requestSlots).fill(NONE);
    this.#hashed = new Int32Array(requestSlots);
    this.#wanted = new Int32Array(requestSlots);
    this.#waiting = new Int32Array(requestSlots);
    this.#queue = new ItemQueue(requestSlots);
  }

  /** Slots with hashing to do. */
  pending(): number {
    return this.#queue.size;
  }
  hashed(slot: number): number {
    return this.#hashed[slot]!;
  }
  covers(slot: number, blocks: number): boolean {
    return this.#hashed[slot]! >= blocks;
  }

  /**
   * A question that needs the first `blocks` blocks of the request, of which the asker has `hashed` in the row already;
   * `leave` when it is answered.
   */
  enter(slot: number, generation: number, blocks: number, hashed: number): void {
    if (this.#generation[slot] !== generation) {
      // What a predecessor hashed without telling the asker is hashed anew: the digests are the same.
      this.#generation[slot] = generation;
      this.#hashed[slot] = 0;
      this.#wanted[slot] = 0;
      this.#waiting[slot] = 0;
    }
    if (hashed > this.#hashed[slot]!) this.#hashed[slot] = hashed;
    this.#waiting[slot] = this.#waiting[slot]! + 1;
    if (blocks > this.#wanted[slot]!) this.#wanted[slot] = blocks;
    if (!this.covers(slot, blocks) && !this.#queue.has(slot)) this.#queue.push(slot);
  }

  leave(slot: number, generation: number): void {
    if (this.#generation[slot] !== generation || this.#waiting[slot] === 0) return;
    this.#waiting[slot] = this.#waiting[slot]! - 1;
    if (this.#waiting[slot] === 0) this.#wanted[slot] = this.#hashed[slot]!;
  }

  /** Hashes at most `blocksMax` blocks and calls `covered` for every request that has all it will get. Returns the blocks hashed. */
  run(
    context: ActorContext,
    blocksMax: number,
    covered: (slot: number, generation: number) => void,
  ): number {
    let left = blocksMax;
    while (left > 0) {
      const slot = this.#queue.shift();
      if (slot === NONE) break;
      const missing = this.#wanted[slot]! - this.#hashed[slot]!;
      if (missing <= 0) continue;
      // Rows that were given back while somebody still asked: the asker is told, and nothing is written.
      const piece = isCurrent(this.#tables, slot, this.#generation[slot]!)
        ? Math.min(missing, PIECE_BLOCKS, left)
        : 0;
      if (piece > 0) this.#hash(slot, piece, context);
      left -= piece;
      if (piece > 0 && piece < missing) this.#queue.push(slot);
      else covered(slot, this.#generation[slot]!);
    }
    return blocksMax - left;
  }

  #hash(slot: number, blocks: number, context: ActorContext): void {
    const words = this.#tables.requests;
    const at = this.#tables.request(slot);
    const from = this.#hashed[slot]!;
    const generation = this.#generation[slot]!;
    context.trace.record("hashBegin", slot, generation, blocks, 0);
    const done = context.hashBlocks(
      words[at + REQUEST_TOKEN_PAGE]!,
      words[at + REQUEST_HASH_PAGE]!,
      words[at + REQUEST_EXTRAS_PAGE]!,
      from,
      from + blocks,
    );
    if (done !== blocks) brokenInvariant("hashing stopped early", { slot, from, blocks, done });
    this.#hashed[slot] = from + blocks;
    context.trace.record("hashEnd", slot, generation, blocks, 0);
  }
}
