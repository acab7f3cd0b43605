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
  JOB_LIVE_WORD,
  JOB_LOCAL_TOKENS,
  JOB_RANKS,
  JOB_ROW_BLOCKS,
  JOB_SLOT,
  JOB_STATE_WORD,
  JOB_STORE_ID,
  JOB_TICKET,
  JOB_TOKENS,
  NONE,
  REQUEST_BLOCKS,
  REQUEST_GENERATION,
  REQUEST_HASH_PAGE,
} from "../blocks/layout.ts";
import { savePagesMax } from "../blocks/capacities.ts";
import { brokenInvariant } from "../errors.ts";
import { JobRows } from "./job-rows.ts";
import type { SchedulerPorts } from "./ports.ts";
import { Quarantine } from "./quarantine.ts";

export { jobChains } from "./job-rows.ts";

/**
 * Records of the job table: the scheduler side writes them, pins their blocks, and frees both when every rank has reported.
 * A job whose request has left (finished, preempted) is an orphan: it keeps its pins, in quarantine, and its result is nobody's.
 */
export class Jobs {
  readonly quarantine: Quarantine;
  readonly #ports: SchedulerPorts;
  readonly #rows: JobRows;
  /** Free records, oldest first: a record rests as long as possible, so that a duplicate report finds nobody. */
  readonly #free: Int32Array;
  #freeHead = 0;
  #freeCount: number;
  readonly #live: Uint8Array;
  readonly #orphan: Uint8Array;
  readonly #slot: Int32Array;
  readonly #next: Int32Array;
  readonly #firstOfSlot: Int32Array;
  readonly #ofSlot: Int32Array;
  /** Pages that saves may hold: the rest is enough for all rows and loads. */
  readonly #savePagesMax: number;
  #savePages = 0;
  #storeId = 0;

  constructor(ports: SchedulerPorts) {
    const { dimensions, jobs } = ports.tables;
    const { jobSlots, requestSlots } = dimensions;
    this.#ports = ports;
    this.quarantine = new Quarantine(dimensions.blockCount);
    this.#rows = new JobRows(ports.tables, ports.blockPages);
    this.#free = new Int32Array(jobSlots);
    this.#freeCount = 0;
    this.#live = new Uint8Array(jobSlots);
    this.#orphan = new Uint8Array(jobSlots);
    this.#slot = new Int32Array(jobSlots).fill(NONE);
    this.#next = new Int32Array(jobSlots).fill(NONE);
    this.#firstOfSlot = new Int32Array(requestSlots).fill(NONE);
    this.#ofSlot = new Int32Array(requestSlots);
    this.#savePagesMax = savePagesMax(dimensions);
    for (let job = 0; job < jobSlots; job++) {
      // Pairs with the stores of a dead scheduler side.
      if (Atomics.load(jobs, ports.tables.job(job) + JOB_LIVE_WORD) === 0)
        this.#free[this.#freeCount++] = job;
    }
  }

  /**
   * Takes over the live records of a scheduler side that died, as orphans: pins their blocks and waits for their reports.
   * Call once, before the first request, on a page allocator that has adopted `jobChains`.
   */
  adopt(): void {
    const { tables, pool } = this.#ports;
    for (let job = 0; job < this.#live.length; job++) {
      // Pairs with the stores of a dead scheduler side.
      if (Atomics.load(tables.jobs, tables.job(job) + JOB_LIVE_WORD) === 0) continue;
      const entries = this.word(job, JOB_ROW_BLOCKS);
      this.#live[job] = 1;
      this.#link(job, this.word(job, JOB_SLOT));
      if (this.isSave(job)) this.#savePages += this.#rows.pagesFor(entries);
      for (let group = 0; group < tables.dimensions.groups; group++) {
        this.#rows.read(job, group, entries, this.#rows.before(job, this.isSave(job)));
        pool.pin(this.#rows.ids, entries);
      }
      this.abandon(job);
    }
  }

  freeRecords(): number {
    return this.#freeCount;
  }
  liveRecords(): number {
    return this.#live.length - this.#freeCount;
  }
  live(job: number): boolean {
    return this.#live[job] === 1;
  }
  /** The job's request, or NONE when it has left. */
  slot(job: number): number {
    return this.#orphan[job] === 1 ? NONE : (this.#slot[job] ?? NONE);
  }
  /** Jobs that hold the slot, orphans too. */
  ofSlot(slot: number): number {
    return this.#ofSlot[slot]!;
  }
  word(job: number, word: number): number {
    return this.#ports.tables.jobs[this.#ports.tables.job(job) + word]!;
  }
  isSave(job: number): boolean {
    return this.word(job, JOB_KIND) === JOB_KIND_SAVE;
  }

  /** Writes a load of chunks [floor(local / block), pool / block); pins exactly those. A record must be free. */
  createLoad(slot: number, localTokens: number, poolTokens: number): number {
    const blockSize = this.#ports.tables.dimensions.blockSize;
    const first = Math.floor(localTokens / blockSize);
    const end = Math.floor(poolTokens / blockSize);
    const job = this.#create(JOB_KIND_LOAD, slot, first, end - first, end - first);
    if (job === NONE) brokenInvariant("no room for the record of a load that was offered", slot);
    this.#write(job, JOB_TOKENS, poolTokens);
    this.#write(job, JOB_LOCAL_TOKENS, localTokens);
    this.#copyAndPin(job, slot, first, end, 0);
    return job;
  }

  /**
   * Writes a save of tokens [fromTokens, tokens), whole blocks. All blocks of the request are pinned, as in vLLM: the row
   * holds the chunks to save first, then those behind them, then those before. NONE when there is no record or no page.
   */
  createSave(slot: number, fromTokens: number, tokens: number): number {
    const { tables } = this.#ports;
    const blocks = tables.requests[tables.request(slot) + REQUEST_BLOCKS]!;
    const first = fromTokens / tables.dimensions.blockSize;
    const chunks = (tokens - fromTokens) / tables.dimensions.blockSize;
    if (first + chunks > blocks) brokenInvariant("request has fewer blocks than it computes", slot);
    if (this.#savePages + this.#rows.pagesFor(blocks) > this.#savePagesMax) return NONE;
    const job = this.#create(JOB_KIND_SAVE, slot, first, chunks, blocks);
    if (job === NONE) return NONE;
    this.#savePages += this.#rows.pagesFor(blocks);
    this.#write(job, JOB_TOKENS, tokens);
    this.#write(job, JOB_LOCAL_TOKENS, 0);
    this.#write(job, JOB_STORE_ID, this.#storeId);
    this.#storeId = (this.#storeId + 1) | 0;
    this.#copyAndPin(job, slot, first, blocks, first);
    return job;
  }

  /** Fixes the deadline when the job is handed out. */
  start(job: number, deadlineMs: number): void {
    this.#write(job, JOB_DEADLINE_MS, deadlineMs | 0);
  }

  /** Unpins and frees the record. `slot(job)` stays readable until the record is used again. */
  release(job: number): void {
    const { tables, trace } = this.#ports;
    const save = this.isSave(job);
    const entries = this.word(job, JOB_ROW_BLOCKS);
    for (let group = 0; group < tables.dimensions.groups; group++) {
      this.#rows.read(job, group, entries, this.#rows.before(job, save));
      if (this.#orphan[job] === 1) this.quarantine.remove(this.#rows.ids, entries);
      this.#ports.pool.unpin(this.#rows.ids, entries);
    }
    const blocks = entries * tables.dimensions.groups;
    trace.record("blocksUnpinned", this.#slot[job]!, this.word(job, JOB_GENERATION), job, blocks);
    this.#freeRecord(job);
  }

  #freeRecord(job: number): void {
    const { tables } = this.#ports;
    const entries = this.word(job, JOB_ROW_BLOCKS);
    if (this.isSave(job)) this.#savePages -= this.#rows.pagesFor(entries);
    this.#rows.free(job);
    this.#unlink(job);
    // Pairs with the scan of a restarted loader or saver: the record is nobody's.
    Atomics.store(tables.jobs, tables.job(job) + JOB_LIVE_WORD, 0);
    this.#live[job] = 0;
    const tail = (this.#freeHead + this.#freeCount++) % this.#free.length;
    this.#free[tail] = job;
  }

  /** The request left while the job runs: its blocks are quarantined until every rank has reported. */
  abandon(job: number): void {
    if (this.#orphan[job] === 1) return;
    const { tables, trace } = this.#ports;
    const entries = this.word(job, JOB_ROW_BLOCKS);
    this.#orphan[job] = 1;
    for (let group = 0; group < tables.dimensions.groups; group++) {
      this.#rows.read(job, group, entries, this.#rows.before(job, this.isSave(job)));
      this.quarantine.add(this.#rows.ids, entries);
    }
    const blocks = entries * tables.dimensions.groups;
    const generation = this.word(job, JOB_GENERATION);
    trace.record("blocksQuarantined", this.#slot[job]!, generation, job, blocks);
  }
  abandonAll(slot: number): void {
    for (let job = this.#firstOfSlot[slot]!; job !== NONE; job = this.#next[job]!)
      this.abandon(job);
  }

  #create(kind: number, slot: number, first: number, chunks: number, entries: number): number {
    const { tables, ranks } = this.#ports;
    if (this.#freeCount === 0) return NONE;
    const job = this.#free[this.#freeHead]!;
    if (!this.#rows.allocate(job, entries)) return NONE;
    this.#freeHead = (this.#freeHead + 1) % this.#free.length;
    this.#freeCount--;
    const request = tables.request(slot);
    this.#write(job, JOB_KIND, kind);
    this.#write(job, JOB_SLOT, slot);
    this.#write(job, JOB_GENERATION, tables.requests[request + REQUEST_GENERATION]!);
    this.#write(job, JOB_CHUNK_FIRST, first);
    this.#write(job, JOB_CHUNKS, chunks);
    this.#write(job, JOB_HASH_PAGE, tables.requests[request + REQUEST_HASH_PAGE]!);
    this.#write(job, JOB_STORE_ID, NONE);
    this.#write(job, JOB_RANKS, 2 ** ranks - 1);
    this.#write(job, JOB_ROW_BLOCKS, entries);
    this.#write(job, JOB_HANDED_OUT, 0);
    this.#write(job, JOB_TICKET, (this.word(job, JOB_TICKET) + 1) | 0);
    // Line 2 is ours while the record is not live (layout.ts). Pairs with the loads of the actor that takes the job.
    Atomics.store(tables.jobs, tables.job(job) + JOB_ANSWERED_WORD, 0);
    Atomics.store(tables.jobs, tables.job(job) + JOB_STATE_WORD, 0);
    this.#live[job] = 1;
    this.#orphan[job] = 0;
    this.#link(job, slot);
    return job;
  }

  #copyAndPin(job: number, slot: number, first: number, end: number, before: number): void {
    const { tables, pool, trace } = this.#ports;
    const entries = this.word(job, JOB_ROW_BLOCKS);
    for (let group = 0; group < tables.dimensions.groups; group++) {
      this.#rows.copy(job, slot, group, first, end, before);
      try {
        pool.pin(this.#rows.ids, entries);
      } catch (error) {
        this.#unpinGroups(job, group, entries, before);
        this.#freeRecord(job);
        throw error;
      }
    }
    const blocks = entries * tables.dimensions.groups;
    trace.record("blocksPinned", slot, this.word(job, JOB_GENERATION), job, blocks);
    // Publishes the record for the scan of a restarted loader, saver or scheduler; the running ones are told by message.
    // Pairs with their loads of the word.
    Atomics.store(tables.jobs, tables.job(job) + JOB_LIVE_WORD, 1);
  }

  /** The caller's allocator refused a group: those before it are given back. */
  #unpinGroups(job: number, groups: number, entries: number, before: number): void {
    for (let group = 0; group < groups; group++) {
      this.#rows.read(job, group, entries, before);
      this.#ports.pool.unpin(this.#rows.ids, entries);
    }
  }

  #link(job: number, slot: number): void {
    this.#slot[job] = slot;
    this.#next[job] = this.#firstOfSlot[slot]!;
    this.#firstOfSlot[slot] = job;
    this.#ofSlot[slot] = this.#ofSlot[slot]! + 1;
  }

  #unlink(job: number): void {
    const slot = this.#slot[job]!;
    let previous = NONE;
    let at = this.#firstOfSlot[slot]!;
    while (at !== job) {
      if (at === NONE) brokenInvariant("job is not in its request's list", job);
      previous = at;
      at = this.#next[at]!;
    }
    if (previous === NONE) this.#firstOfSlot[slot] = this.#next[job]!;
    else this.#next[previous] = this.#next[job]!;
    this.#ofSlot[slot] = this.#ofSlot[slot]! - 1;
  }

  #write(job: number, word: number, value: number): void {
    this.#ports.tables.jobs[this.#ports.tables.job(job) + word] = value;
  }
}
