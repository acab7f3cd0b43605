import {
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_WORDS,
  NONE,
  REQUEST_GENERATION,
  REQUEST_HASH_PAGE,
  REQUEST_TOKEN_PAGE,
} from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import { CODE_POOL } from "../../events/event-records.ts";
import type { KvEventWriter } from "../../events/event-records.ts";
import type { StoredBlock } from "../../connector/worker/save-job.ts";
import { keyCode } from "../jobs/outcomes.ts";

/**
 * KV events of saves, as vLLM's store connector makes them: one BlockStored for each block that the pool did not have and now has
 * with every value of it. The request of a save keeps its slot, its tokens and its hashes until the save is reported.
 */
export class StoredBlocks {
  readonly #tables: Tables;
  readonly #events: KvEventWriter;
  readonly #spans: readonly number[];
  /** Used again for each batch and block. */
  readonly #rows = { tokenPage: NONE, hashPage: NONE };
  readonly #run = new PoolRun();
  /** Where the last hash row was found: a page of the chain, and how many entries stand before it. */
  #page = NONE;
  #before = 0;

  constructor(tables: Tables, events: KvEventWriter) {
    const { groups, groupSpanTokens, blockSize } = tables.dimensions;
    this.#tables = tables;
    this.#events = events;
    this.#spans = groupSpanTokens ?? Array.from({ length: groups }, () => blockSize);
  }

  /** A put batch of the request has ended; its entries are in prefix order, the values of one block in a row. */
  putDone(
    slot: number,
    generation: number,
    entries: Int32Array,
    status: number,
    results: Int32Array,
    count: number,
  ): void {
    if (!this.#seek(slot, generation)) return;
    this.#page = this.#rows.hashPage;
    this.#before = 0;
    for (let index = 0; index < count;) {
      const group = entries[index * ENTRY_WORDS + ENTRY_GROUP]!;
      const hashRow = entries[index * ENTRY_WORDS + ENTRY_HASH_ROW]!;
      let whole = true;
      for (; index < count; index++) {
        const at = index * ENTRY_WORDS;
        if (entries[at + ENTRY_GROUP] !== group || entries[at + ENTRY_HASH_ROW] !== hashRow) break;
        if (keyCode(status, results[index]!) < 0) whole = false;
      }
      if (whole) this.#stored(group, this.#hashIndex(hashRow));
    }
  }

  /** A planned save of the request has ended: these blocks are in the pool with every value of them, and were not before. */
  saved(slot: number, generation: number, blocks: readonly StoredBlock[]): void {
    if (!this.#seek(slot, generation)) return;
    for (const { group, hash } of blocks) this.#stored(group, hash);
  }

  /** False: the request is gone. */
  #seek(slot: number, generation: number): boolean {
    const { requests } = this.#tables;
    const record = this.#tables.request(slot);
    if (requests[record + REQUEST_GENERATION] !== generation) return false;
    this.#rows.tokenPage = requests[record + REQUEST_TOKEN_PAGE]!;
    this.#rows.hashPage = requests[record + REQUEST_HASH_PAGE]!;
    return true;
  }

  #stored(group: number, hash: number): void {
    const blockSize = this.#spans[group]!;
    const tokens = (hash + 1) * this.#tables.dimensions.hashBlockSize;
    // The state at the end of a prefix that ends inside a block has a key, but is no block.
    if (tokens === 0 || tokens % blockSize !== 0) return;
    const run = this.#run;
    run.group = group;
    run.blockSize = blockSize;
    run.firstBlock = tokens / blockSize - 1;
    this.#events.stored(this.#rows, run);
  }

  /** Number of the request's hash that lies in `hashRow`, -1 when it has none there. Cheap when rows rise. */
  #hashIndex(hashRow: number): number {
    const { hashes } = this.#tables;
    const perPage = hashes.entriesPerPage;
    const wanted = Math.floor(hashRow / perPage);
    for (let wrapped = false; this.#page !== wanted;) {
      this.#page = hashes.next(this.#page);
      this.#before += perPage;
      if (this.#page !== NONE) continue;
      // Groups may stand behind one another, each from the start.
      this.#page = this.#rows.hashPage;
      this.#before = 0;
      if (wrapped) return -1;
      wrapped = true;
    }
    return this.#before + (hashRow % perPage);
  }
}

/** One block of the pool; used again for each. */
class PoolRun {
  readonly medium = CODE_POOL;
  readonly blocks = 1;
  readonly plain = false;
  group = 0;
  blockSize = 0;
  firstBlock = 0;
}
