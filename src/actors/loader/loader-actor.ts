import {
  ENTRY_BLOCK,
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_PREFIX,
  ENTRY_WORDS,
  JOB_KIND_LOAD,
  JOB_STATE_NEW,
  JOB_TICKET,
  NONE,
  OPERATION_GET,
  REQUEST_LOADS_IN_FLIGHT,
  TIER_DISK,
} from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import { getRotation } from "../../keys/pool-keys.ts";
import type { WorkerKeySpace } from "../../store/key-spaces.ts";
import { COUNTERS, STORE_LOAD_GET } from "../../trace/counters.ts";
import { JobCursor } from "../jobs/job-cursor.ts";
import { JobItems } from "../jobs/job-items.ts";
import {
  JobRunner,
  reportKibibytes,
  reportMicroseconds,
  type JobCounters,
  type JobWork,
} from "../jobs/job-runner.ts";
import { keyCode, outcomeOfCode } from "../jobs/outcomes.ts";
import { countBatch, type StoreMetrics } from "../jobs/store-metrics.ts";
import { OUTCOME_CANCELLED, type LoadDone, type Message } from "../messages.ts";
import type { Actor, ActorContext, ActorInspection, Inbox } from "../step.ts";
import { LoadProgress } from "./load-progress.ts";
import { subBatchEnd } from "./sub-batches.ts";

export interface LoaderOptions {
  readonly tables: Tables;
  /** By worker side (rank) of this process; `load.worker` is an index. */
  readonly workers: readonly WorkerKeySpace[];
  readonly metrics?: StoreMetrics;
}

export interface LoaderCounters {
  keys: number;
  failedKeys: number;
  memoryBlocks: number;
  diskBlocks: number;
  bytes: number;
  cancelledJobs: number;
}

/**
 * Loads blocks from the pool into KV memory, in place. A load that fails anywhere reports its first bad chunk and everything
 * behind it counts as not loaded (vLLM leaves later sub-batches out of its report); `loadDone` always comes, after the engine
 * has let go of all blocks of the job.
 */
export class LoaderActor implements Actor, JobWork {
  readonly counters: LoaderCounters = {
    keys: 0,
    failedKeys: 0,
    memoryBlocks: 0,
    diskBlocks: 0,
    bytes: 0,
    cancelledJobs: 0,
  };
  readonly #items: JobItems;
  readonly #runner: JobRunner;
  readonly #workers: readonly WorkerKeySpace[];
  readonly #groups: number;
  readonly #metrics: StoreMetrics | undefined;
  readonly #cursor: JobCursor;
  readonly #progress: LoadProgress;
  readonly #memoryBlocks: Int32Array;
  readonly #diskBlocks: Int32Array;
  /** Per batch slot, grown on demand: position of its first key. */
  #batchFrom = new Int32Array(0);
  #context: ActorContext | undefined;

  constructor(options: LoaderOptions) {
    const { tables, workers } = options;
    this.#workers = workers;
    this.#groups = tables.dimensions.groups;
    this.#metrics = options.metrics;
    this.#items = new JobItems(tables, workers.length, JOB_KIND_LOAD, REQUEST_LOADS_IN_FLIGHT);
    this.#runner = new JobRunner(this.#items, this, "load");
    this.#cursor = new JobCursor(tables);
    this.#progress = new LoadProgress(this.#items.count);
    this.#memoryBlocks = new Int32Array(this.#items.count);
    this.#diskBlocks = new Int32Array(this.#items.count);
  }

  get jobCounters(): JobCounters {
    return this.#runner.counters;
  }

  step(inbox: Inbox, tables: Tables, context: ActorContext): number {
    this.#context = context;
    return this.#runner.step(inbox, tables, context);
  }

  idle(): boolean {
    return this.#runner.idle();
  }

  inspect(nowMs: number): ActorInspection {
    return this.#runner.inspect(this.counters, nowMs);
  }

  begin(item: number): void {
    const items = this.#items;
    const total = this.#cursor.entries(items.job(item));
    const rank = this.#workers[items.worker(item)]!.tensorParallelRank;
    this.#progress.begin(item, total, getRotation(rank, total));
    this.#memoryBlocks[item] = 0;
    this.#diskBlocks[item] = 0;
    // A predecessor has recorded the begin of an orphan.
    if (items.orphan[item] === 0) this.#trace("loadBegin", item, items.job(item), total);
  }

  hasMore(item: number): boolean {
    return this.#progress.hasMore(item);
  }

  submitNext(item: number, batch: number, context: ActorContext): boolean {
    const { engine } = context;
    const progress = this.#progress;
    const from = progress.next(item);
    const to = subBatchEnd(from, progress.end(item), engine.keysPerBatchMax);
    if (to <= from) return false;
    const items = this.#items;
    const worker = this.#workers[items.worker(item)]!;
    const entries = engine.entries(batch);
    const cursor = this.#cursor;
    for (let position = from; position < to; position++) {
      const entry = progress.entryAt(item, position);
      if (position === from || entry === 0) cursor.seek(items.job(item), entry);
      cursor.advance();
      const at = (position - from) * ENTRY_WORDS;
      entries[at + ENTRY_GROUP] = cursor.group;
      entries[at + ENTRY_PREFIX] = worker.ownPrefixOfGroup[cursor.group]!;
      entries[at + ENTRY_BLOCK] = cursor.block;
      entries[at + ENTRY_HASH_ROW] = cursor.hashRow;
    }
    this.#rememberFrom(batch, from, engine.batchSlots);
    progress.sentTo(item, to);
    engine.submit(batch, OPERATION_GET, worker.keySpaceId, to - from, item, item);
    this.#trace("getSubmitted", item, to - from, batch);
    return true;
  }

  completed(item: number, batch: number, context: ActorContext): boolean {
    const { engine } = context;
    const status = engine.status(batch);
    const count = engine.count(batch);
    const results = engine.results(batch);
    const tiers = engine.tiers(batch);
    const from = this.#batchFrom[batch]!;
    let bytes = 0;
    let failed = 0;
    let disk = 0;
    for (let index = 0; index < count; index++) {
      const code = keyCode(status, results[index]!);
      if (code >= 0) {
        bytes += code;
        if (tiers[index] === TIER_DISK) disk++;
        continue;
      }
      failed++;
      this.#items.fail(item, outcomeOfCode(code));
      this.#progress.failed(item, this.#progress.entryAt(item, from + index), this.#groups);
    }
    this.#items.bytes[item] = this.#items.bytes[item]! + bytes;
    this.#diskBlocks[item] = this.#diskBlocks[item]! + disk;
    this.#memoryBlocks[item] = this.#memoryBlocks[item]! + count - failed - disk;
    this.#count(count, failed, disk, bytes);
    countBatch(this.#metrics, engine, batch, STORE_LOAD_GET, failed, bytes);
    this.#trace("getDone", item, batch, status);
    return false;
  }

  giveUp(item: number, outcome: number): void {
    if (!this.#progress.giveUp(item)) return;
    this.#items.fail(item, outcome);
  }

  report(item: number, context: ActorContext): LoadDone {
    const items = this.#items;
    const now = context.nowMs();
    const outcome = items.outcome[item]!;
    const badChunk = this.#badChunk(item);
    this.#metrics?.add(COUNTERS.loads + outcome, 1);
    this.#trace("loadEnd", item, outcome, badChunk);
    return {
      kind: "loadDone",
      job: items.job(item),
      ticket: items.word(item, JOB_TICKET),
      worker: items.worker(item),
      outcome,
      badChunk,
      memoryBlocks: this.#memoryBlocks[item]!,
      diskBlocks: this.#diskBlocks[item]!,
      kibibytes: reportKibibytes(items.bytes[item]!),
      microseconds: reportMicroseconds(items.beganMs[item]!, now),
    };
  }

  receive(message: Message, context: ActorContext): boolean {
    if (message.kind !== "cancelLoad") return false;
    const items = this.#items;
    const { job, ticket } = message;
    if (!items.knownAs(job, ticket)) return false;
    this.counters.cancelledJobs++;
    // Live, announced as far as the sender knows, and never seen here: its message died with a predecessor.
    const lost = items.state(job) === JOB_STATE_NEW;
    for (let worker = 0; worker < items.workers; worker++) {
      const item = items.item(job, worker);
      if (lost) this.#runner.refuse(item, OUTCOME_CANCELLED, context);
      else if (items.active[item] === 1) this.#runner.giveUp(item, OUTCOME_CANCELLED, context);
    }
    return true;
  }

  /** NONE when every block arrived. */
  #badChunk(item: number): number {
    const bad = this.#progress.bad(item);
    return bad === NONE ? NONE : this.#items.chunkFirst(item) + Math.floor(bad / this.#groups);
  }

  #rememberFrom(batch: number, from: number, batchSlots: number): void {
    if (this.#batchFrom.length < batchSlots) this.#batchFrom = new Int32Array(batchSlots);
    this.#batchFrom[batch] = from;
  }

  #count(keys: number, failed: number, disk: number, bytes: number): void {
    this.counters.keys += keys;
    this.counters.failedKeys += failed;
    this.counters.diskBlocks += disk;
    this.counters.memoryBlocks += keys - failed - disk;
    this.counters.bytes += bytes;
  }

  #trace(
    event: "loadBegin" | "loadEnd" | "getSubmitted" | "getDone",
    item: number,
    first: number,
    second: number,
  ): void {
    const items = this.#items;
    this.#context?.trace.record(event, items.slot(item), items.generation(item), first, second);
  }
}
