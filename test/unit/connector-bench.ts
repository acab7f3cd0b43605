/** A scheduler side on real tables with an in-test message queue: what the connector's tests drive. */
import type { Message, MessageKind, MessageOf } from "../../src/actors/messages.ts";
import {
  GROUPS_MAX,
  JOB_BLOCK_PAGE,
  JOB_BOUNDARY_PAGE,
  JOB_BOUNDARY_PUTS,
  JOB_CHUNK_FIRST,
  JOB_CHUNKS,
  JOB_GROUP_BLOCKS,
  LOOKUP_HIT,
  LOOKUP_MISS,
  lookupAttempt,
  lookupWord,
  NONE,
  REQUEST_BLOCK_PAGE,
  REQUEST_GROUP_BLOCKS,
  REQUEST_EXTRAS_PAGE,
  REQUEST_FLAGS,
  REQUEST_GENERATION,
  REQUEST_HASH_PAGE,
  REQUEST_HIT_TOKENS,
  REQUEST_LIVE_WORD,
  REQUEST_LOOKUP_ASKED_WORD,
  REQUEST_LOOKUP_WORD,
  REQUEST_OUTPUT_TOKENS_WORD,
  REQUEST_PROMPT_TOKENS,
  REQUEST_TOKEN_PAGE,
} from "../../src/blocks/layout.ts";
import { PageAllocator } from "../../src/blocks/page-arena.ts";
import { createTableBuffers, Tables } from "../../src/blocks/tables.ts";
import type { TableDimensions } from "../../src/blocks/tables.ts";
import type { HitRules } from "../../src/keys/coordinator/hit-rules.ts";
import type { SchedulerPorts } from "../../src/connector/ports.ts";
import type { SchedulerSide } from "../../src/connector/scheduler-side.ts";
import { ConnectorSides } from "../../src/connector/sides.ts";
import type { ConnectorSettings } from "../../src/connector/settings.ts";
import { NO_TRACE } from "../../src/trace/events.ts";

export const BENCH_SETTINGS: ConnectorSettings = {
  role: "kv_both",
  loadAsync: true,
  lookupAsync: true,
  enableLookup: true,
  canSave: true,
  saveDecodeCache: false,
  lookupTimeoutMs: 1_000,
  loadTimeoutMs: 30_000,
  saveTimeoutMs: 60_000,
  minLoadTokens: 0,
  loadFailurePolicy: "recompute",
};

const DIMENSIONS: TableDimensions = {
  requestSlots: 8,
  jobSlots: 8,
  tokensPerRequestMax: 4096,
  tokensMax: 8 * 4096,
  hashBlockSize: 16,
  hashLookaheadTokens: 0,
  extraEncoding: "pickle",
  blockSize: 16,
  groups: 1,
  blockCount: 512,
  stepSequencesMax: 0,
};

export interface BenchOptions {
  readonly dimensions?: Partial<TableDimensions>;
  readonly settings?: Partial<ConnectorSettings>;
  readonly rules?: HitRules;
  readonly ranks?: number;
  readonly waitLookup?: SchedulerPorts["waitLookup"];
  readonly readMembership?: () => number;
  /** A predecessor whose tables are taken over. */
  readonly tables?: Tables;
  readonly blockPages?: PageAllocator;
}

export class ConnectorBench {
  nowMs = 0;
  /** Pins that still succeed before one throws. */
  pinsLeft = Infinity;
  wakes = 0;
  readonly tables: Tables;
  readonly sides: ConnectorSides;
  readonly hooks: SchedulerSide;
  /** Messages sent and not taken yet. */
  readonly sent: { readonly actor: number; readonly message: Message }[] = [];
  readonly log: string[] = [];
  /** Hash blocks that the scheduler side hashed itself: [slot's token page, from, to]. */
  readonly hashed: [number, number, number][] = [];
  readonly blockPages: PageAllocator;
  readonly #pins = new Map<number, number>();
  #nextSlot = 0;

  constructor(options: BenchOptions = {}) {
    this.tables =
      options.tables ?? new Tables(createTableBuffers({ ...DIMENSIONS, ...options.dimensions }));
    this.blockPages = options.blockPages ?? new PageAllocator(this.tables.blocks);
    const note = (_fields: object, text: string): void => void this.log.push(text);
    const wait = options.waitLookup;
    this.sides = new ConnectorSides({
      tables: this.tables,
      blockPages: this.blockPages,
      pool: {
        pin: (ids, count) => {
          if (this.pinsLeft-- <= 0) throw new Error("no pin");
          this.#count(ids, count, 1);
        },
        unpin: (ids, count) => this.#count(ids, count, -1),
      },
      settings: { ...BENCH_SETTINGS, ...options.settings },
      ranks: options.ranks ?? 1,
      ...(options.rules === undefined ? {} : { rules: options.rules }),
      log: { debug: note, warn: note },
      trace: NO_TRACE,
      nowMs: () => this.nowMs,
      send: (actor, message) => void this.sent.push({ actor, message }),
      flushWakes: () => void this.wakes++,
      readLookup: (slot) =>
        Atomics.load(this.tables.requests, this.tables.request(slot) + REQUEST_LOOKUP_WORD),
      hashBlocks: (tokenPage, _hashPage, _extrasPage, from, to) => {
        this.hashed.push([tokenPage, from, to]);
        return to - from;
      },
      ...(wait === undefined ? {} : { waitLookup: wait }),
      ...(options.readMembership === undefined ? {} : { readMembership: options.readMembership }),
    });
    this.hooks = this.sides.hooks;
  }

  /** Fills a record as the front end does, announces it, and answers its hash request. */
  addRequest(
    promptTokens: number,
    options: { hash?: boolean; flags?: number; slot?: number } = {},
  ): number {
    const slot = options.slot ?? this.#nextSlot++;
    const at = this.tables.request(slot);
    const words = this.tables.requests;
    words[at + REQUEST_GENERATION] = words[at + REQUEST_GENERATION]! + 1;
    words[at + REQUEST_PROMPT_TOKENS] = promptTokens;
    words[at + REQUEST_OUTPUT_TOKENS_WORD] = 0;
    words[at + REQUEST_FLAGS] = options.flags ?? 0;
    words[at + REQUEST_TOKEN_PAGE] = NONE;
    words[at + REQUEST_HASH_PAGE] = NONE;
    words[at + REQUEST_EXTRAS_PAGE] = NONE;
    if (words[at + REQUEST_GENERATION] === 1)
      words.fill(NONE, at + REQUEST_BLOCK_PAGE, at + REQUEST_BLOCK_PAGE + GROUPS_MAX);
    this.closeRow(slot);
    words[at + REQUEST_LIVE_WORD] = 1;
    this.hooks.requestAdded(slot);
    if (options.hash !== false) this.answerHash(slot);
    return slot;
  }

  answerHash(slot: number): boolean {
    const generation = this.request(slot, REQUEST_GENERATION);
    const blocks = Math.floor(
      this.request(slot, REQUEST_PROMPT_TOKENS) / this.tables.dimensions.hashBlockSize,
    );
    if (this.take("hashRequest").length === 0) return false;
    return this.sides.receive({ kind: "hashed", slot, generation, blocks });
  }

  /** Prompt and generated tokens together. */
  setTokens(slot: number, tokens: number): void {
    const at = this.tables.request(slot);
    this.tables.requests[at + REQUEST_OUTPUT_TOKENS_WORD] =
      tokens - this.tables.requests[at + REQUEST_PROMPT_TOKENS]!;
  }

  /** The row of a model with one group. */
  setRow(slot: number, blockIds: readonly number[]): void {
    this.setRows(slot, [blockIds]);
  }
  setRows(slot: number, rows: readonly (readonly number[])[]): void {
    const at = this.tables.request(slot);
    const words = this.tables.requests;
    this.closeRow(slot);
    for (const [group, blockIds] of rows.entries()) {
      const page = this.blockPages.allocate(blockIds.length);
      words[at + REQUEST_BLOCK_PAGE + group] = page;
      words[at + REQUEST_GROUP_BLOCKS + group] = blockIds.length;
      for (const [index, block] of blockIds.entries()) this.tables.blocks.set(page, index, block);
    }
  }

  closeRow(slot: number): void {
    const at = this.tables.request(slot);
    const words = this.tables.requests;
    for (let group = 0; group < this.tables.dimensions.groups; group++) {
      this.blockPages.free(words[at + REQUEST_BLOCK_PAGE + group]!);
      words[at + REQUEST_BLOCK_PAGE + group] = NONE;
      words[at + REQUEST_GROUP_BLOCKS + group] = 0;
    }
  }

  /** What the lookup actor writes; the word is published last. */
  publish(slot: number, state: number, hitTokens: number, attempt = this.attempt(slot)): void {
    const at = this.tables.request(slot);
    this.tables.requests[at + REQUEST_HIT_TOKENS] = hitTokens;
    Atomics.store(this.tables.requests, at + REQUEST_LOOKUP_WORD, lookupWord(attempt, 1, state));
  }
  publishHit(slot: number, hitTokens: number): void {
    this.publish(slot, hitTokens > 0 ? LOOKUP_HIT : LOOKUP_MISS, hitTokens);
  }
  lookupDone(slot: number, attempt = this.attempt(slot)): boolean {
    const generation = this.request(slot, REQUEST_GENERATION);
    return this.sides.receive({ kind: "lookupDone", slot, generation, attempt });
  }
  answerHit(slot: number, hitTokens: number): boolean {
    this.publishHit(slot, hitTokens);
    return this.lookupDone(slot);
  }
  attempt(slot: number): number {
    return lookupAttempt(this.request(slot, REQUEST_LOOKUP_ASKED_WORD));
  }

  /** Takes the sent messages of one kind out of the queue. */
  take<Kind extends MessageKind>(kind: Kind): MessageOf<Kind>[] {
    const taken: MessageOf<Kind>[] = [];
    for (let index = 0; index < this.sent.length;) {
      const message = this.sent[index]?.message;
      if (message?.kind === kind) {
        taken.push(message as MessageOf<Kind>);
        this.sent.splice(index, 1);
      } else index++;
    }
    return taken;
  }

  request(slot: number, word: number): number {
    return this.tables.requests[this.tables.request(slot) + word]!;
  }
  job(job: number, word: number): number {
    return this.tables.jobs[this.tables.job(job) + word]!;
  }
  chunks(job: number): { first: number; count: number } {
    return { first: this.job(job, JOB_CHUNK_FIRST), count: this.job(job, JOB_CHUNKS) };
  }
  row(job: number, group = 0): number[] {
    const page = this.job(job, JOB_BLOCK_PAGE + group);
    const count = this.job(job, JOB_GROUP_BLOCKS + group);
    return Array.from({ length: count }, (_, index) => this.tables.blocks.get(page, index));
  }
  /** [group, block, tokens] of each boundary put of a save. */
  boundaries(job: number): number[][] {
    const page = this.job(job, JOB_BOUNDARY_PAGE);
    return Array.from({ length: this.job(job, JOB_BOUNDARY_PUTS) }, (_, put) =>
      [0, 1, 2].map((word) => this.tables.blocks.get(page, 3 * put + word)),
    );
  }
  /** The blocks that the job works on. */
  chunkRow(job: number): number[] {
    return this.row(job).slice(0, this.chunks(job).count);
  }
  /** All blocks of a save's row in order of the request's chunks. */
  savedRow(job: number): number[] {
    const row = this.row(job);
    const before = this.chunks(job).first;
    return [...row.slice(row.length - before), ...row.slice(0, row.length - before)];
  }

  pinnedBlocks(): number[] {
    return [...this.#pins.keys()].sort((left, right) => left - right);
  }

  #count(ids: Int32Array, count: number, step: number): void {
    for (const block of ids.subarray(0, count)) {
      const pins = (this.#pins.get(block) ?? 0) + step;
      if (pins < 0) throw new Error(`block ${block} is unpinned twice`);
      if (pins === 0) this.#pins.delete(block);
      else this.#pins.set(block, pins);
    }
  }
}
