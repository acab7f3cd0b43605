import {
  NONE,
  REQUEST_BLOCK_PAGE,
  REQUEST_BLOCKS,
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

/** Block ids of one request, one list a KV-cache group. */
export type BlockIdsPerGroup = readonly ArrayLike<number>[];

/** Text ids to slots, and what an embedded loop tells of each request: block rows and generated tokens. */
export class EmbeddedRequests {
  readonly #tables: Tables;
  readonly #blockPages: PageAllocator;
  readonly #slots: RequestSlots;
  readonly #cursor: ChainCursor;
  readonly #slotOfId = new Map<string, number>();
  readonly #idOfSlot: (string | undefined)[] = [];
  /** Finished requests of which something is still in flight. */
  readonly #draining = new Set<number>();

  constructor(tables: Tables, blockPages: PageAllocator, slots: RequestSlots) {
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
    const added = this.#check(blockIds);
    this.clearRow(slot);
    this.#append(slot, blockIds, added);
  }

  appendRow(slot: number, blockIds: BlockIdsPerGroup): void {
    this.#append(slot, blockIds, this.#check(blockIds));
  }

  #append(slot: number, blockIds: BlockIdsPerGroup, added: number): void {
    const { groups } = this.#tables.dimensions;
    if (added === 0) return;
    const at = this.#tables.request(slot);
    const words = this.#tables.requests;
    const have = words[at + REQUEST_BLOCKS]!;
    for (let group = 0; group < groups; group++) {
      const word = at + REQUEST_BLOCK_PAGE + group;
      if (!this.#room(word, have, have + added)) throw fullRows();
      this.#cursor.seek(words[word]!, have);
      const ids = blockIds[group]!;
      for (let index = 0; index < added; index++)
        this.#tables.blocks.words[this.#cursor.advance()] = ids[index]!;
    }
    words[at + REQUEST_BLOCKS] = have + added;
  }

  clearRow(slot: number): void {
    const at = this.#tables.request(slot);
    for (let group = 0; group < this.#tables.dimensions.groups; group++)
      this.#blockPages.free(this.#tables.requests[at + REQUEST_BLOCK_PAGE + group]!);
    this.#forgetRow(at);
  }

  /** Generated tokens; needed for saves past the prompt and for lookups after a preemption. */
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

  /** The id is free again at once; the slot when nothing of it is in flight. */
  finished(id: string, slot: number): void {
    this.#slotOfId.delete(id);
    this.clearRow(slot);
    this.#draining.add(slot);
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
    for (let group = 0; group < this.#tables.dimensions.groups; group++)
      this.#tables.requests[at + REQUEST_BLOCK_PAGE + group] = NONE;
    this.#tables.requests[at + REQUEST_BLOCKS] = 0;
  }

  /** Number of blocks that every group gets. Throws INVALID_VALUE for block ids that are none. */
  #check(blockIds: BlockIdsPerGroup): number {
    const { groups, blockCount } = this.#tables.dimensions;
    const added = blockIds[0]?.length ?? 0;
    if (blockIds.length !== groups || blockIds.some((ids) => ids.length !== added)) {
      throw invalidBlocks(
        blockIds.map((ids) => ids.length),
        `must be ${groups} list(s) of equal length`,
      );
    }
    for (const ids of blockIds)
      for (let index = 0; index < added; index++) {
        const id = ids[index]!;
        if (!(Number.isInteger(id) && id >= 0 && id < blockCount))
          throw invalidBlocks(id, `must be block ids from 0 to ${blockCount - 1}`);
      }
    return added;
  }
}

function invalidBlocks(value: unknown, problem: string): MooncakeKvError {
  const remedy = "Give the ids of the registered KV blocks, one list for each KV-cache group.";
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
