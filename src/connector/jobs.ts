import {
  JOB_ANSWERED_WORD,
  JOB_CHUNK_FIRST,
  JOB_CHUNKS,
  JOB_DEADLINE_MS,
  JOB_GENERATION,
  JOB_HANDED_OUT,
  JOB_HASH_PAGE,
  JOB_KIND,
  JOB_KIND_LOAD,
  JOB_KIND_SAVE,
  JOB_LIFE,
  JOB_LIVE_WORD,
  JOB_LOCAL_TOKENS,
  JOB_PROMPT_TOKENS,
  JOB_RANKS,
  JOB_SLOT,
  JOB_STATE_WORD,
  JOB_STORE_ID,
  JOB_TAIL_TOKENS,
  JOB_TICKET,
  JOB_TOKENS,
  NONE,
  REQUEST_GENERATION,
  REQUEST_HASH_PAGE,
  REQUEST_LIFE,
} from "../blocks/layout.ts";
import { lostBlocksMax } from "../blocks/capacities.ts";
import { brokenInvariant } from "../errors.ts";
import type { HitRules } from "../keys/coordinator/hit-rules.ts";
import type { BoundaryPuts } from "./boundary-puts.ts";
import { HeldBlocks } from "./held-blocks.ts";
import { JobRecords } from "./job-records.ts";
import { JobRows } from "./job-rows.ts";
import type { SchedulerPorts } from "./ports.ts";
import { SaveRoom } from "./save-room.ts";
import type { Quarantine } from "./quarantine.ts";

export { jobChains } from "./job-rows.ts";

/**
 * Records of the job table: the scheduler side writes them, holds their blocks, and frees both when every rank has reported.
 * A job whose request has left (finished, preempted) is an orphan: it keeps its blocks, and its result is nobody's.
 */
export class Jobs {
  readonly #ports: SchedulerPorts;
  readonly #rules: HitRules;
  readonly #rows: JobRows;
  readonly #records: JobRecords;
  readonly #held: HeldBlocks;
  /** Blocks of the row of each group of the job that is being made. */
  readonly #entries: Int32Array;
  readonly #saveRoom: SaveRoom;
  readonly #lostBlocksMax: number;
  /** Records that loads were offered in this step. */
  #offered: () => number = () => 0;
  #storeId = 0;

  constructor(ports: SchedulerPorts, rules: HitRules) {
    const { dimensions } = ports.tables;
    this.#ports = ports;
    this.#rules = rules;
    this.#rows = new JobRows(ports.tables, ports.blockPages);
    this.#records = new JobRecords(ports.tables);
    this.#held = new HeldBlocks(ports.tables, ports.pool, this.#rows);
    this.#entries = new Int32Array(dimensions.groups);
    this.#saveRoom = new SaveRoom(dimensions);
    this.#lostBlocksMax = lostBlocksMax(dimensions.blockCount);
  }

  /** Takes over a dead scheduler side's live records, as orphans. Once, on a page allocator that has adopted `jobChains`. */
  adopt(): void {
    const { tables } = this.#ports;
    for (let job = 0; job < tables.dimensions.jobSlots; job++) {
      // Pairs with the stores of a dead scheduler side.
      if (Atomics.load(tables.jobs, tables.job(job) + JOB_LIVE_WORD) === 0) continue;
      this.#records.adopt(job, this.word(job, JOB_SLOT));
      if (this.isSave(job)) this.#saveRoom.take(this.#rows.furtherPagesOf(job));
      this.#held.adopt(job);
      this.abandon(job);
    }
  }

  get quarantine(): Quarantine {
    return this.#held.quarantine;
  }
  /** Of loads that the engine does not give back there are too many: no new one starts until some come back. */
  tooManyLost(): boolean {
    return this.#held.lost.blocks > this.#lostBlocksMax;
  }
  /** `offered`: records that are promised to loads of this step. */
  reserve(offered: () => number): void {
    this.#offered = offered;
  }
  /** A save may be made as far as records go: the others are for loads. */
  roomForSave(): boolean {
    return this.#records.free > this.#offered() && this.#saveRoom.hasRecord();
  }
  freeRecords(): number {
    return this.#records.free;
  }
  liveRecords(): number {
    return this.#records.inUse;
  }
  live(job: number): boolean {
    return this.#records.live(job);
  }
  /** The job's request, or NONE when it has left. */
  slot(job: number): number {
    return this.#held.orphan(job) ? NONE : this.#records.slot(job);
  }
  /** Jobs that hold the slot, orphans too. */
  ofSlot(slot: number): number {
    return this.#records.ofSlot(slot);
  }
  word(job: number, word: number): number {
    return this.#ports.tables.jobs[this.#ports.tables.job(job) + word]!;
  }
  isSave(job: number): boolean {
    return this.word(job, JOB_KIND) === JOB_KIND_SAVE;
  }

  /**
   * Writes a load of chunks [floor(local / block), pool / block); pins exactly those. Where transfers are planned: of the whole
   * rows, because the plan tells which blocks are got; `tails`, at `tailAt`, are the tokens that name each group's last block.
   * A record must be free.
   */
  createLoad(
    slot: number,
    localTokens: number,
    poolTokens: number,
    tails: ArrayLike<number>,
    tailAt: number,
  ): number {
    const { blockSize, groups } = this.#ports.tables.dimensions;
    const rules = this.#rules;
    const first = rules.uniform ? Math.floor(localTokens / blockSize) : 0;
    const end = Math.floor(poolTokens / blockSize);
    for (let group = 0; group < groups; group++)
      this.#entries[group] = rules.uniform
        ? end - first
        : Math.ceil(poolTokens / rules.groups[group]!.spanTokens);
    const job = this.#create(JOB_KIND_LOAD, slot, first, end - first, 0);
    if (job === NONE) brokenInvariant("no room for the record of a load that was offered", slot);
    this.#write(job, JOB_TOKENS, poolTokens);
    this.#write(job, JOB_LOCAL_TOKENS, localTokens);
    if (!rules.uniform)
      for (let group = 0; group < groups; group++)
        this.#write(job, JOB_TAIL_TOKENS + group, tails[tailAt + group]!);
    this.#publish(job, slot);
    return job;
  }

  /**
   * Writes a save of tokens [fromTokens, tokens), whole blocks. All blocks of the request are pinned, as in vLLM: the row
   * holds the chunks to save first, then those behind them, then those before. NONE when there is no record or no page.
   */
  createSave(slot: number, fromTokens: number, tokens: number): number {
    const { blockSize, groups } = this.#ports.tables.dimensions;
    const first = fromTokens / blockSize;
    const chunks = (tokens - fromTokens) / blockSize;
    for (let group = 0; group < groups; group++) {
      const blocks = this.#ports.tables.rowBlocks(slot, group);
      if (first + chunks > blocks)
        brokenInvariant("request has fewer blocks than it computes", slot);
      this.#entries[group] = blocks;
    }
    const job = this.#createSave(slot, first, chunks, 0);
    if (job === NONE) return NONE;
    this.#write(job, JOB_TOKENS, tokens);
    this.#publish(job, slot);
    return job;
  }

  /**
   * Writes a planned save of the first `tokens` tokens and of `puts`. Pinned are the blocks of the puts and, as in vLLM, all of
   * the request in groups whose blocks are put by their place: not states, which are put as boundary puts only. NONE when there
   * is no record or no page.
   */
  createPlannedSave(
    slot: number,
    tokens: number,
    promptTokens: number,
    puts: BoundaryPuts,
  ): number {
    const rules = this.#rules;
    for (let group = 0; group < rules.groups.length; group++) {
      const placed = tokens > 0 && rules.groups[group]!.needs !== "state";
      this.#entries[group] = placed ? this.#ports.tables.rowBlocks(slot, group) : 0;
    }
    const job = this.#createSave(slot, 0, tokens / rules.blockTokens, puts.count);
    if (job === NONE) return NONE;
    this.#write(job, JOB_TOKENS, tokens);
    this.#write(job, JOB_PROMPT_TOKENS, promptTokens);
    this.#rows.writeBoundaries(job, puts);
    this.#publish(job, slot);
    return job;
  }

  #createSave(slot: number, first: number, chunks: number, puts: number): number {
    const pages = this.#rows.furtherPagesFor(this.#entries, puts);
    if (!this.roomForSave() || !this.#saveRoom.fits(pages)) return NONE;
    const job = this.#create(JOB_KIND_SAVE, slot, first, chunks, puts);
    if (job === NONE) return NONE;
    this.#saveRoom.take(pages);
    this.#write(job, JOB_LOCAL_TOKENS, 0);
    this.#write(job, JOB_STORE_ID, this.#storeId);
    this.#storeId = (this.#storeId + 1) | 0;
    return job;
  }

  /** Fixes the deadline when the job is handed out. */
  start(job: number, deadlineMs: number): void {
    this.#write(job, JOB_DEADLINE_MS, deadlineMs | 0);
  }

  /** Unpins and frees the record. `slot(job)` stays readable until the record is used again. */
  release(job: number): void {
    const blocks = this.#held.release(job);
    const generation = this.word(job, JOB_GENERATION);
    this.#ports.trace.record("blocksUnpinned", this.#records.slot(job), generation, job, blocks);
    this.#freeRecord(job);
  }

  #freeRecord(job: number): void {
    if (this.isSave(job)) this.#saveRoom.giveBack(this.#rows.furtherPagesOf(job));
    // Before its rows go: a successor that finds the record live reads them, and would die of what is half freed.
    this.#records.giveBack(job);
    this.#rows.free(job);
  }

  /** The request left while the job runs: its blocks are quarantined until every rank has reported. */
  abandon(job: number): void {
    if (this.#held.orphan(job)) return;
    const blocks = this.#held.abandon(job);
    const generation = this.word(job, JOB_GENERATION);
    this.#ports.trace.record("blocksQuarantined", this.#records.slot(job), generation, job, blocks);
  }
  /** A load that its engine does not give back. */
  lose(job: number): void {
    this.abandon(job);
    this.#held.lose(job);
  }
  abandonAll(slot: number): void {
    const records = this.#records;
    for (let job = records.firstOfSlot(slot); job !== NONE; job = records.nextOfSlot(job))
      this.abandon(job);
  }

  #create(kind: number, slot: number, first: number, chunks: number, puts: number): number {
    const { tables, ranks } = this.#ports;
    const next = this.#records.peek();
    if (next === NONE || !this.#rows.allocate(next, this.#entries, puts)) return NONE;
    const job = this.#records.take(slot);
    const request = tables.request(slot);
    this.#write(job, JOB_KIND, kind);
    this.#write(job, JOB_SLOT, slot);
    this.#write(job, JOB_GENERATION, tables.requests[request + REQUEST_GENERATION]!);
    this.#write(job, JOB_LIFE, tables.requests[request + REQUEST_LIFE]!);
    this.#write(job, JOB_CHUNK_FIRST, first);
    this.#write(job, JOB_CHUNKS, chunks);
    this.#write(job, JOB_HASH_PAGE, tables.requests[request + REQUEST_HASH_PAGE]!);
    this.#write(job, JOB_STORE_ID, NONE);
    this.#write(job, JOB_PROMPT_TOKENS, NONE);
    this.#write(job, JOB_RANKS, 2 ** ranks - 1);
    this.#write(job, JOB_HANDED_OUT, 0);
    this.#write(job, JOB_TICKET, (this.word(job, JOB_TICKET) + 1) | 0);
    // Line 2 is ours while the record is not live (layout.ts). Pairs with the loads of the actor that takes the job.
    Atomics.store(tables.jobs, tables.job(job) + JOB_ANSWERED_WORD, 0);
    Atomics.store(tables.jobs, tables.job(job) + JOB_STATE_WORD, 0);
    return job;
  }

  /** The record is written: holds its blocks, and announces it. Throws what `pin` throws, and frees the record then. */
  #publish(job: number, slot: number): void {
    const { tables, trace } = this.#ports;
    let blocks = 0;
    try {
      blocks = this.#held.hold(job, slot);
    } catch (error) {
      this.#freeRecord(job);
      throw error;
    }
    trace.record("blocksPinned", slot, this.word(job, JOB_GENERATION), job, blocks);
    // Publishes the record for the scan of a restarted loader, saver or scheduler; the running ones are told by message.
    // Pairs with their loads of the word.
    Atomics.store(tables.jobs, tables.job(job) + JOB_LIVE_WORD, 1);
  }

  #write(job: number, word: number, value: number): void {
    this.#ports.tables.jobs[this.#ports.tables.job(job) + word] = value;
  }
}
