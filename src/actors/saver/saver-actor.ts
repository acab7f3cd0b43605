import {
  ENTRY_BLOCK,
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_PREFIX,
  ENTRY_WORDS,
  JOB_CHUNKS,
  JOB_KIND_SAVE,
  JOB_TICKET,
  OPERATION_EXISTS,
  OPERATION_PUT,
  REQUEST_SAVES_IN_FLIGHT,
} from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import { putChunkCount, putsChunk } from "../../keys/striping.ts";
import { EngineCode, type EngineChannel } from "../../store/engine.ts";
import type { KvEventWriter } from "../../events/event-records.ts";
import type { WorkerKeySpace } from "../../store/key-spaces.ts";
import { COUNTERS, STORE_SAVE_EXISTS, STORE_SAVE_PUT } from "../../trace/counters.ts";
import type { TraceEventName } from "../../trace/events.ts";
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
import { OUTCOME_HIT, OUTCOME_NO_SPACE, type Message, type SaveDone } from "../messages.ts";
import type { Actor, ActorContext, ActorInspection, Inbox } from "../step.ts";
import { Pressure } from "./pressure.ts";
import { keepMissing } from "./missing.ts";
import { createSaverCounters, type SaverCounters } from "./saver-counters.ts";
import { SavedMarks } from "./saved-marks.ts";
import { StoredBlocks } from "./stored-blocks.ts";

export interface SaverOptions {
  readonly tables: Tables;
  /** By worker side (rank) of this process; `save.worker` is an index. */
  readonly workers: readonly WorkerKeySpace[];
  readonly metrics?: StoreMetrics;
  /** Where KV events go; absent: none are made. */
  readonly events?: KvEventWriter | undefined;
}

/** No reason to give an item up. */
const GOES_ON = 0;

/**
 * Saves blocks to the pool: asks which keys are missing (one batch exists where it fits), then puts exactly those out of the
 * same batch slot. The engine reads a job's blocks only between its batches' submit and completion; `saveDone` always comes,
 * after the last of them.
 */
export class SaverActor implements Actor, JobWork {
  readonly counters: SaverCounters = createSaverCounters();
  readonly pressure: Pressure;
  readonly #items: JobItems;
  readonly #runner: JobRunner;
  readonly #workers: readonly WorkerKeySpace[];
  readonly #groups: number;
  readonly #metrics: StoreMetrics | undefined;
  readonly #cursor: JobCursor;
  readonly #marks: SavedMarks;
  readonly #stored: StoredBlocks | null;
  /** By item: entries looked at so far and in all, why it was given up, what was found out. */
  readonly #next: Int32Array;
  readonly #end: Int32Array;
  readonly #givenUp: Uint8Array;
  readonly #written: Int32Array;
  readonly #present: Int32Array;
  #context: ActorContext | undefined;

  constructor(options: SaverOptions) {
    const { tables, workers } = options;
    const { requestSlots, groups } = tables.dimensions;
    this.#workers = workers;
    this.#groups = groups;
    this.#metrics = options.metrics;
    this.#items = new JobItems(tables, workers.length, JOB_KIND_SAVE, REQUEST_SAVES_IN_FLIGHT);
    this.#runner = new JobRunner(this.#items, this, "save");
    this.#cursor = new JobCursor(tables);
    this.#marks = new SavedMarks(requestSlots, workers.length);
    this.pressure = new Pressure(requestSlots);
    this.#stored = options.events === undefined ? null : new StoredBlocks(tables, options.events);
    const { count } = this.#items;
    this.#next = new Int32Array(count);
    this.#end = new Int32Array(count);
    this.#givenUp = new Uint8Array(count);
    this.#written = new Int32Array(count);
    this.#present = new Int32Array(count);
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
    const slot = items.slot(item);
    const generation = items.generation(item);
    const first = items.chunkFirst(item);
    const chunks = items.word(item, JOB_CHUNKS);
    const saved = this.#marks.chunks(slot, generation, items.worker(item)) - first;
    const skipped = Math.min(chunks, Math.max(0, saved));
    this.#next[item] = skipped * this.#groups;
    this.#end[item] = chunks * this.#groups;
    this.#givenUp[item] = GOES_ON;
    this.#written[item] = 0;
    this.#present[item] = this.#owned(item, first, first + skipped);
    if (items.orphan[item] === 1) return;
    this.#trace("saveBegin", item, items.job(item), this.#end[item]);
    if (!this.hasMore(item) || !this.pressure.skips(slot, generation)) return;
    this.pressure.skipped++;
    this.giveUp(item, OUTCOME_NO_SPACE);
  }

  hasMore(item: number): boolean {
    return this.#givenUp[item] === GOES_ON && this.#next[item]! < this.#end[item]!;
  }

  /** An exists batch over the next keys that this rank puts. */
  submitNext(item: number, batch: number, context: ActorContext): boolean {
    const { engine } = context;
    const items = this.#items;
    const worker = this.#workers[items.worker(item)]!;
    const entries = engine.entries(batch);
    const end = this.#end[item]!;
    const cursor = this.#cursor.seek(items.job(item), this.#next[item]!);
    let count = 0;
    let next = this.#next[item]!;
    for (; next < end && count < engine.keysPerBatchMax; next++) {
      cursor.advance();
      const { group } = cursor;
      const phase = worker.putPhaseOfGroup[group]!;
      if (!putsChunk(cursor.chunk, worker.putStepOfGroup[group]!, phase)) continue;
      const at = count++ * ENTRY_WORDS;
      entries[at + ENTRY_GROUP] = group;
      entries[at + ENTRY_PREFIX] = worker.ownPrefixOfGroup[group]!;
      entries[at + ENTRY_BLOCK] = cursor.block;
      entries[at + ENTRY_HASH_ROW] = cursor.hashRow;
    }
    this.#next[item] = next;
    if (count === 0) return false;
    engine.submit(batch, OPERATION_EXISTS, worker.keySpaceId, count, item, item);
    this.counters.existsKeys += count;
    this.#trace("existsSubmitted", item, count, batch);
    return true;
  }

  completed(item: number, batch: number, context: ActorContext): boolean {
    const { engine } = context;
    if (engine.operation(batch) === OPERATION_PUT) {
      this.#putDone(item, batch, engine);
      return false;
    }
    return this.#existsDone(item, batch, engine);
  }

  giveUp(item: number, outcome: number): void {
    if (this.#givenUp[item] !== GOES_ON) return;
    // Exists batches in flight see the reason and put nothing; if all puts are under way nothing is lost.
    this.#givenUp[item] = outcome;
    if (this.#next[item]! < this.#end[item]!) this.#items.fail(item, outcome);
  }

  report(item: number, context: ActorContext): SaveDone {
    const items = this.#items;
    const worker = items.worker(item);
    const first = items.chunkFirst(item);
    const end = first + items.word(item, JOB_CHUNKS);
    const outcome = items.outcome[item]!;
    const written = this.#written[item]!;
    const present = this.#present[item]!;
    if (outcome === OUTCOME_HIT)
      this.#marks.saved(items.slot(item), items.generation(item), worker, first, end);
    this.#metrics?.add(COUNTERS.saves + outcome, 1);
    this.#trace("saveEnd", item, outcome, written);
    return {
      kind: "saveDone",
      job: items.job(item),
      ticket: items.word(item, JOB_TICKET),
      worker,
      outcome,
      writtenBlocks: written,
      presentBlocks: present,
      failedBlocks: this.#owned(item, first, end) - written - present,
      kibibytes: reportKibibytes(items.bytes[item]!),
      microseconds: reportMicroseconds(items.beganMs[item]!, context.nowMs()),
    };
  }

  receive(_message: Message, _context: ActorContext): boolean {
    return false;
  }

  /** True: what was missing is being put, out of the same batch slot. */
  #existsDone(item: number, batch: number, engine: EngineChannel): boolean {
    const status = engine.status(batch);
    const count = engine.count(batch);
    this.#trace("existsDone", item, batch, status);
    countBatch(this.#metrics, engine, batch, STORE_SAVE_EXISTS, status < 0 ? count : 0, 0);
    if (status < 0) {
      this.counters.failedKeys += count;
      this.#failRest(item, outcomeOfCode(status));
      return false;
    }
    const missing = keepMissing(engine.entries(batch), engine.results(batch), count);
    this.#present[item] = this.#present[item]! + count - missing;
    this.counters.presentBlocks += count - missing;
    if (missing === 0) return false;
    if (this.#givenUp[item] !== GOES_ON) {
      this.#items.fail(item, this.#givenUp[item]!);
      return false;
    }
    const { keySpaceId } = this.#workers[this.#items.worker(item)]!;
    engine.submit(batch, OPERATION_PUT, keySpaceId, missing, item, item);
    this.counters.putKeys += missing;
    this.#trace("putSubmitted", item, missing, batch);
    return true;
  }

  #putDone(item: number, batch: number, engine: EngineChannel): void {
    const items = this.#items;
    const status = engine.status(batch);
    const count = engine.count(batch);
    const results = engine.results(batch);
    let bytes = 0;
    let failed = 0;
    let refused = 0;
    for (let index = 0; index < count; index++) {
      const code = keyCode(status, results[index]!);
      if (code >= 0) {
        bytes += code;
        continue;
      }
      failed++;
      if (code === EngineCode.NO_AVAILABLE_HANDLE) refused++;
      items.fail(item, outcomeOfCode(code));
    }
    items.bytes[item] = items.bytes[item]! + bytes;
    this.#written[item] = this.#written[item]! + count - failed;
    this.counters.writtenBlocks += count - failed;
    this.counters.failedKeys += failed;
    this.counters.refusedPuts += refused;
    this.counters.bytes += bytes;
    this.#trace("putDone", item, batch, status);
    countBatch(this.#metrics, engine, batch, STORE_SAVE_PUT, failed, bytes);
    const slot = items.slot(item);
    const generation = items.generation(item);
    this.#stored?.putDone(slot, generation, engine.entries(batch), status, results, count);
    if (refused > 0) {
      this.pressure.refused(slot, generation);
      this.#failRest(item, OUTCOME_NO_SPACE);
    } else if (failed === 0) this.pressure.succeeded(slot, generation);
  }

  #failRest(item: number, outcome: number): void {
    this.#items.fail(item, outcome);
    this.giveUp(item, outcome);
  }

  /** Keys of chunks [from, to) that this rank puts. */
  #owned(item: number, from: number, to: number): number {
    const { putStepOfGroup: step, putPhaseOfGroup: phase } =
      this.#workers[this.#items.worker(item)]!;
    let owned = 0;
    for (let group = 0; group < this.#groups; group++)
      owned += putChunkCount(from, to, step[group]!, phase[group]!);
    return owned;
  }

  #trace(event: TraceEventName, item: number, first: number, second: number): void {
    const items = this.#items;
    this.#context?.trace.record(event, items.slot(item), items.generation(item), first, second);
  }
}
