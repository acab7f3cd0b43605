import {
  JOB_KIND_SAVE,
  JOB_TICKET,
  NONE,
  OPERATION_EXISTS,
  OPERATION_PUT,
  REQUEST_SAVES_IN_FLIGHT,
} from "../../blocks/layout.ts";
import type { KvEventWriter } from "../../events/event-records.ts";
import { EngineCode, type EngineChannel } from "../../store/engine.ts";
import { COUNTERS, STORE_SAVE_EXISTS, STORE_SAVE_PUT } from "../../trace/counters.ts";
import { JobActor, type JobActorOptions } from "../jobs/job-actor.ts";
import { keyCode, outcomeOfCode } from "../jobs/outcomes.ts";
import { reportKibibytes, reportMicroseconds } from "../jobs/report-units.ts";
import { countExists, countValues } from "../jobs/store-metrics.ts";
import type { SaveDone } from "../messages.ts";
import type { ActorContext } from "../step.ts";
import { isPresent } from "../../connector/worker/store-requests.ts";
import { PlannedSaves } from "./planned-saves.ts";
import { Pressure } from "./pressure.ts";
import { SavedMarks } from "./saved-marks.ts";
import { createSaverCounters, type SaverCounters } from "./saver-counters.ts";
import type { SaveWork } from "./save-work.ts";
import { StoredBlocks } from "./stored-blocks.ts";
import { UniformSaves } from "./uniform-saves.ts";

export interface SaverOptions extends JobActorOptions {
  /** Where KV events go; absent: none are made. */
  readonly events?: KvEventWriter | undefined;
}

/**
 * Saves blocks to the pool: asks which keys are missing and puts exactly those. The engine reads a job's blocks only between its
 * batches' submit and completion; `saveDone` always comes, after the last of them. With several values a block, reports count
 * values.
 */
export class SaverActor extends JobActor {
  readonly counters: SaverCounters = createSaverCounters();
  readonly pressure: Pressure;
  /** What is known to be saved of each request. */
  readonly marks: SavedMarks;
  readonly #saves: SaveWork;
  /** By item: keys that were put, and those that the pool had. */
  readonly #written: Int32Array;
  readonly #present: Int32Array;

  constructor(options: SaverOptions) {
    super(options, { kind: JOB_KIND_SAVE, gaugeWord: REQUEST_SAVES_IN_FLIGHT, message: "save" });
    const { tables, workers, rules, events } = options;
    const { requestSlots } = tables.dimensions;
    const marks = new SavedMarks(requestSlots, workers.length);
    const pressure = new Pressure(requestSlots);
    const stored = events === undefined ? null : new StoredBlocks(tables, events);
    this.pressure = pressure;
    this.marks = marks;
    this.#saves = rules.uniform
      ? new UniformSaves(tables, this.items, workers, marks, pressure, stored)
      : new PlannedSaves(tables, this.items, workers, rules, marks, pressure, stored);
    this.#written = new Int32Array(this.items.count);
    this.#present = new Int32Array(this.items.count);
  }

  begin(item: number): void {
    this.#saves.begin(item);
    this.#written[item] = 0;
    this.#present[item] = this.#saves.knownKeys(item);
    if (this.items.orphan[item] === 1) return;
    this.trace("saveBegin", item, this.items.job(item), this.#saves.keys(item));
  }

  hasMore(item: number): boolean {
    return this.#saves.hasMore(item);
  }
  isDone(item: number): boolean {
    return this.#saves.isDone(item);
  }

  submitNext(item: number, batch: number, context: ActorContext): boolean {
    const { engine } = context;
    const keys = this.#saves.submitNext(item, batch, engine);
    if (keys > 0) this.#sent(item, batch, engine.operation(batch), keys);
    return keys > 0;
  }

  completed(item: number, batch: number, context: ActorContext): boolean {
    const { engine } = context;
    if (engine.operation(batch) === OPERATION_PUT) {
      this.#putDone(item, batch, engine);
      return false;
    }
    this.#countExists(item, batch, engine);
    const missing = this.#saves.existsDone(item, batch, engine);
    if (missing > 0) this.#sent(item, batch, OPERATION_PUT, missing);
    return missing > 0;
  }

  giveUp(item: number, outcome: number): void {
    this.#saves.giveUp(item, outcome);
  }

  report(item: number, context: ActorContext): SaveDone {
    const { items } = this;
    this.#saves.settle(item);
    const outcome = items.outcome[item]!;
    const written = this.#written[item]!;
    const present = this.#present[item]!;
    this.metrics?.add(COUNTERS.saves + outcome, 1);
    this.trace("saveEnd", item, outcome, written);
    return {
      kind: "saveDone",
      job: items.job(item),
      ticket: items.word(item, JOB_TICKET),
      worker: items.worker(item),
      outcome,
      writtenBlocks: written,
      presentBlocks: present,
      failedBlocks: this.#saves.wantedKeys(item) - written - present,
      kibibytes: reportKibibytes(items.bytes[item]!),
      microseconds: reportMicroseconds(items.beganMs[item]!, context.nowMs()),
    };
  }

  override ended(item: number, context: ActorContext): void {
    const next = this.#saves.ended(item);
    if (next !== NONE) this.runner.wake(next, context);
  }

  #sent(item: number, batch: number, operation: number, keys: number): void {
    const asks = operation === OPERATION_EXISTS;
    if (asks) this.counters.existsKeys += keys;
    else this.counters.putKeys += keys;
    this.trace(asks ? "existsSubmitted" : "putSubmitted", item, keys, batch);
  }

  #countExists(item: number, batch: number, engine: EngineChannel): void {
    const status = engine.status(batch);
    const count = engine.count(batch);
    this.trace("existsDone", item, batch, status);
    countExists(this.metrics, engine, batch, STORE_SAVE_EXISTS);
    if (status < 0) {
      this.counters.failedKeys += count;
      return;
    }
    const results = engine.results(batch);
    let present = 0;
    for (let index = 0; index < count; index++) if (isPresent(results[index]!)) present++;
    this.#present[item]! += present;
    this.counters.presentBlocks += present;
  }

  #putDone(item: number, batch: number, engine: EngineChannel): void {
    const { items, counters } = this;
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
    items.bytes[item]! += bytes;
    this.#written[item]! += count - failed;
    counters.writtenBlocks += count - failed;
    counters.failedKeys += failed;
    counters.refusedPuts += refused;
    counters.bytes += bytes;
    this.trace("putDone", item, batch, status);
    countValues(this.metrics, engine, batch, STORE_SAVE_PUT, failed, this.worker(item));
    this.#saves.putDone(item, batch, engine, failed, refused);
  }
}
