import {
  NONE,
  REQUEST_BLOCK_PAGE,
  REQUEST_GROUP_BLOCKS,
  REQUEST_LIVE_WORD,
  REQUEST_OUTPUT_TOKENS_WORD,
  REQUEST_PROMPT_TOKENS,
  REQUEST_TOKEN_PAGE,
  REQUEST_TOKENS_MAX,
} from "../../blocks/layout.ts";
import { ChainCursor } from "../../blocks/page-arena.ts";
import type { PageAllocator } from "../../blocks/page-arena.ts";
import type { RequestSlots } from "../../blocks/request-slots.ts";
import type { Tables } from "../../blocks/tables.ts";
import { MooncakeKvError } from "../../errors.ts";

/** Block ids of one request, one list a KV-cache group. 0, vLLM's null block: no block there (any more), outside of a window; refused where every group needs every block. */
export type BlockIdsPerGroup = readonly ArrayLike<number>[];

/** Text ids to slots, and what an embedded loop tells of each request: block rows and generated tokens. */
export class EmbeddedRequests {
  readonly #tables: Tables;
  readonly #blockPages: PageAllocator;
  readonly #slots: RequestSlots;
  readonly #cursor: ChainCursor;
  readonly #uniform: boolean;
  readonly #slotOfId = new Map<string, number>();
  readonly #idOfSlot: (string | undefined)[] = [];
  /** Finished requests of which something is still in flight. */
  readonly #draining = new Set<number>();
  /** By block: the last check that saw it. */
  readonly #marks: Uint32Array;
  #mark = 0;

  /** `uniform`: all groups have a block for the same tokens, so their rows are of one length. */
  constructor(tables: Tables, blockPages: PageAllocator, slots: RequestSlots, uniform: boolean) {
    this.#uniform = uniform;
    this.#marks = new Uint32Array(tables.dimensions.blockCount);
    this.#tables = tables;
    this.#blockPages = blockPages;
    this.#slots = slots;
    this.#cursor = new ChainCursor(tables.blocks);
  }

  slot(id: string): number {
    return this.#slotOfId.get(id) ?? NONE;
  }
  id(slot: number): string | undefined {
    return this.#idOfSlot[slot];
  }
  get live(): number {
    return this.#slotOfId.size;
  }
  get draining(): number {
    return this.#draining.size;
  }

  /** The slot is filled and not announced yet: it gets its name and an empty row. */
  opened(id: string, slot: number): void {
    const at = this.#tables.request(slot);
    this.#slotOfId.set(id, slot);
    this.#idOfSlot[slot] = id;
    // This thread is front end and scheduler side in one; nobody else has heard of the slot yet.
    // Pairs with the loads of actors that look at the whole request, once a message names it.
    Atomics.store(this.#tables.requests, at + REQUEST_OUTPUT_TOKENS_WORD, 0);
    this.#forgetRow(at);
  }

  /** Requests of an attachment that is gone: nameless, without blocks, and held until nothing of them is in flight. */
  adopt(): readonly number[] {
    const { requests: words, dimensions } = this.#tables;
    const slots: number[] = [];
    for (let slot = 0; slot < dimensions.requestSlots; slot++) {
      const at = this.#tables.request(slot);
      // Pairs with the store of whoever filled the slot: line 0 of a live record is whole.
      if (Atomics.load(words, at + REQUEST_LIVE_WORD) === 0) continue;
      this.#forgetRow(at);
      this.#draining.add(slot);
      slots.push(slot);
    }
    return slots;
  }

  /** Prompt and generated tokens so far. */
  tokens(slot: number): number {
    const at = this.#tables.request(slot);
    const words = this.#tables.requests;
    return words[at + REQUEST_PROMPT_TOKENS]! + words[at + REQUEST_OUTPUT_TOKENS_WORD]!;
  }

  /** Replaces the row by `blockIds`: all blocks of the request. */
  setRow(slot: number, blockIds: BlockIdsPerGroup): void {
    // A refused call must leave the row as it is.
    this.#check(blockIds);
    this.clearRow(slot);
    this.#append(slot, blockIds);
  }

  appendRow(slot: number, blockIds: BlockIdsPerGroup): void {
    this.#check(blockIds);
    this.#append(slot, blockIds);
  }

  #append(slot: number, blockIds: BlockIdsPerGroup): void {
    const at = this.#tables.request(slot);
    const words = this.#tables.requests;
    // Room in all groups first: a row that does not fit stays as it is.
    for (let group = 0; group < blockIds.length; group++) {
      const added = blockIds[group]!.length;
      const have = this.#tables.rowBlocks(slot, group);
      if (added > 0 && !this.#room(at + REQUEST_BLOCK_PAGE + group, have, have + added))
        throw fullRows();
    }
    for (let group = 0; group < blockIds.length; group++) {
      const ids = blockIds[group]!;
      if (ids.length === 0) continue;
      const have = this.#tables.rowBlocks(slot, group);
      this.#cursor.seek(words[at + REQUEST_BLOCK_PAGE + group]!, have);
      for (let index = 0; index < ids.length; index++)
        this.#tables.blocks.words[this.#cursor.advance()] = ids[index]!;
      words[at + REQUEST_GROUP_BLOCKS + group] = have + ids.length;
    }
  }

  clearRow(slot: number): void {
    const at = this.#tables.request(slot);
    for (let group = 0; group < this.#tables.dimensions.groups; group++)
      this.#blockPages.free(this.#tables.requests[at + REQUEST_BLOCK_PAGE + group]!);
    this.#forgetRow(at);
  }

  /** Generated tokens, checked by `checkTokens`; needed for saves past the prompt and for lookups after a preemption. */
  appendTokens(slot: number, tokens: ArrayLike<number>): void {
    const at = this.#tables.request(slot);
    const words = this.#tables.requests;
    const output = words[at + REQUEST_OUTPUT_TOKENS_WORD]!;
    const known = words[at + REQUEST_PROMPT_TOKENS]! + output;
    if (known + tokens.length > words[at + REQUEST_TOKENS_MAX]!) {
      throw new MooncakeKvError({
        code: "INVALID_VALUE",
        field: "tokens",
        value: tokens.length,
        problem: `does not fit: the request has ${known} of at most ${words[at + REQUEST_TOKENS_MAX]!} tokens`,
        remedy: "Give a larger maxTokens to addRequest.",
      });
    }
    for (let index = 0; index < tokens.length; index++)
      this.#tables.tokens.set(words[at + REQUEST_TOKEN_PAGE]!, known + index, tokens[index]!);
    // Published for actors that hash or look at the whole request; pairs with their Atomics.load.
    Atomics.store(words, at + REQUEST_OUTPUT_TOKENS_WORD, output + tokens.length);
  }

  /** The id is free again at once; the slot when nothing of it is in flight. `rowLent`: the connector keeps the row, for a save. */
  finished(id: string, slot: number, rowLent: boolean): void {
    this.#slotOfId.delete(id);
    if (!rowLent) this.clearRow(slot);
    this.#draining.add(slot);
  }

  /** Live requests with computed blocks, or with blocks to compute into. */
  holdingBlocks(): number {
    const { groups } = this.#tables.dimensions;
    let holders = 0;
    for (const slot of this.#slotOfId.values()) {
      for (let group = 0; group < groups; group++) {
        if (this.#tables.rowBlocks(slot, group) === 0) continue;
        holders++;
        break;
      }
    }
    return holders;
  }

  releaseDrained(inFlight: (slot: number) => number): void {
    for (const slot of this.#draining) {
      if (inFlight(slot) > 0) continue;
      this.#draining.delete(slot);
      this.#idOfSlot[slot] = undefined;
      this.#slots.release(slot);
    }
  }

  #room(word: number, have: number, wanted: number): boolean {
    const words = this.#tables.requests;
    if (words[word] !== NONE) return this.#blockPages.extend(words[word]!, have, wanted);
    words[word] = this.#blockPages.allocate(wanted);
    return words[word] !== NONE;
  }

  #forgetRow(at: number): void {
    for (let group = 0; group < this.#tables.dimensions.groups; group++) {
      this.#tables.requests[at + REQUEST_BLOCK_PAGE + group] = NONE;
      this.#tables.requests[at + REQUEST_GROUP_BLOCKS + group] = 0;
    }
  }

  #nextMark(): number {
    this.#mark = (this.#mark + 1) >>> 0;
    if (this.#mark === 0) {
      this.#marks.fill(0);
      this.#mark = 1;
    }
    return this.#mark;
  }

  /** Throws INVALID_VALUE for block ids that are none, or lists that cannot be rows of one request. */
  #check(blockIds: BlockIdsPerGroup): void {
    const { groups, blockCount } = this.#tables.dimensions;
    const lengths = blockIds.map((ids) => ids.length);
    if (blockIds.length !== groups)
      throw invalidBlocks(lengths, `must be ${groups} list(s), one for each group`);
    if (this.#uniform && lengths.some((length) => length !== lengths[0]))
      throw invalidBlocks(lengths, `must be ${groups} list(s) of equal length`);
    const mark = this.#nextMark();
    for (const ids of blockIds)
      for (let index = 0; index < ids.length; index++) {
        const id = ids[index]!;
        if (!(Number.isInteger(id) && id >= 0 && id < blockCount))
          throw invalidBlocks(id, `must be block ids from 0 to ${blockCount - 1}`);
        // Nobody pins it: a loop that numbers its blocks from 0 would use one while an engine is at work on it.
        if (id === 0 && this.#uniform)
          throw invalidBlocks(
            id,
            "must not hold the null block 0, for every group needs every block",
          );
        // Tokens of two places in one block: the later ones would be stored, and found, under the key of the earlier ones.
        if (id !== 0 && this.#marks[id] === mark)
          throw invalidBlocks(id, "must not hold one block twice");
        this.#marks[id] = mark;
      }
  }
}

function invalidBlocks(value: unknown, problem: string): MooncakeKvError {
  const remedy =
    "Give the ids of the registered KV blocks, from 1 on, one list for each KV-cache group.";
  return new MooncakeKvError({ code: "INVALID_VALUE", field: "blockIds", value, problem, remedy });
}

function fullRows(): MooncakeKvError {
  return new MooncakeKvError({
    code: "CAPACITY",
    field: "blockIds",
    problem: "no page is left for block rows",
    remedy: "Make the tables larger (tokensMax, blockCount) or run fewer requests at a time.",
  });
}
