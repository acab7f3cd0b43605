import {
  ENTRY_BLOCK,
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_PREFIX,
  ENTRY_WORDS,
  JOB_CHUNKS,
  NONE,
  OPERATION_EXISTS,
  OPERATION_PUT,
} from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import { putChunkCount, putsChunk } from "../../keys/striping.ts";
import type { EngineChannel } from "../../store/engine.ts";
import type { WorkerKeySpace } from "../../store/key-spaces.ts";
import { JobCursor } from "../jobs/job-cursor.ts";
import type { JobItems } from "../jobs/job-items.ts";
import { outcomeOfCode } from "../jobs/outcomes.ts";
import { OUTCOME_HIT, OUTCOME_NO_SPACE } from "../messages.ts";
import { keepMissing } from "./missing.ts";
import type { Pressure } from "./pressure.ts";
import type { SavedMarks } from "./saved-marks.ts";
import type { SaveWork } from "./save-work.ts";
import type { StoredBlocks } from "./stored-blocks.ts";

/** No reason to give an item up. */
const GOES_ON = 0;

/**
 * Saves where every group needs every block: asks which keys are missing (one batch exists where it fits), then puts exactly those
 * out of the same batch slot.
 */
export class UniformSaves implements SaveWork {
  readonly #items: JobItems;
  readonly #workers: readonly WorkerKeySpace[];
  readonly #groups: number;
  readonly #marks: SavedMarks;
  readonly #pressure: Pressure;
  readonly #stored: StoredBlocks | null;
  readonly #cursor: JobCursor;
  /** By item: entries looked at so far and in all, why it was given up. */
  readonly #next: Int32Array;
  readonly #end: Int32Array;
  readonly #givenUp: Uint8Array;

  constructor(
    tables: Tables,
    items: JobItems,
    workers: readonly WorkerKeySpace[],
    marks: SavedMarks,
    pressure: Pressure,
    stored: StoredBlocks | null,
  ) {
    this.#items = items;
    this.#workers = workers;
    this.#groups = tables.dimensions.groups;
    this.#marks = marks;
    this.#pressure = pressure;
    this.#stored = stored;
    this.#cursor = new JobCursor(tables);
    this.#next = new Int32Array(items.count);
    this.#end = new Int32Array(items.count);
    this.#givenUp = new Uint8Array(items.count);
  }

  begin(item: number): void {
    const items = this.#items;
    this.#marks.seen(items.slot(item), items.life(item));
    this.#next[item] = this.#skippedChunks(item) * this.#groups;
    this.#end[item] = items.word(item, JOB_CHUNKS) * this.#groups;
    this.#givenUp[item] = GOES_ON;
    if (items.orphan[item] === 1 || !this.hasMore(item)) return;
    if (!this.#pressure.skips(items.slot(item), items.life(item))) return;
    this.#pressure.skipped++;
    this.giveUp(item, OUTCOME_NO_SPACE);
  }

  keys(item: number): number {
    return this.#end[item]!;
  }
  hasMore(item: number): boolean {
    return this.#givenUp[item] === GOES_ON && this.#next[item]! < this.#end[item]!;
  }
  isDone(item: number): boolean {
    return !this.hasMore(item);
  }

  /** An exists batch over the next keys that this rank puts. */
  submitNext(item: number, batch: number, engine: EngineChannel): number {
    const worker = this.#worker(item);
    const entries = engine.entries(batch);
    const end = this.#end[item]!;
    const cursor = this.#cursor.seek(this.#items.job(item), this.#next[item]!);
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
    if (count > 0) engine.submit(batch, OPERATION_EXISTS, worker.keySpaceId, count, item, item);
    return count;
  }

  existsDone(item: number, batch: number, engine: EngineChannel): number {
    const status = engine.status(batch);
    if (status < 0) {
      this.#failRest(item, outcomeOfCode(status));
      return 0;
    }
    const missing = keepMissing(engine.entries(batch), engine.results(batch), engine.count(batch));
    if (missing === 0) return 0;
    if (this.#givenUp[item] !== GOES_ON) {
      this.#items.fail(item, this.#givenUp[item]!);
      return 0;
    }
    engine.submit(batch, OPERATION_PUT, this.#worker(item).keySpaceId, missing, item, item);
    return missing;
  }

  putDone(
    item: number,
    batch: number,
    engine: EngineChannel,
    failed: number,
    refused: number,
  ): void {
    const slot = this.#items.slot(item);
    const life = this.#items.life(item);
    this.#stored?.putDone(
      slot,
      this.#items.generation(item),
      engine.entries(batch),
      engine.status(batch),
      engine.results(batch),
      engine.count(batch),
    );
    if (refused > 0) {
      this.#pressure.refused(slot, life);
      this.#failRest(item, OUTCOME_NO_SPACE);
    } else if (failed === 0) this.#pressure.succeeded(slot, life);
  }

  giveUp(item: number, outcome: number): void {
    if (this.#givenUp[item] !== GOES_ON) return;
    // Exists batches in flight see the reason and put nothing; if all puts are under way nothing is lost.
    this.#givenUp[item] = outcome;
    if (this.#next[item]! < this.#end[item]!) this.#items.fail(item, outcome);
  }

  wantedKeys(item: number): number {
    const first = this.#items.chunkFirst(item);
    return this.#owned(item, first, first + this.#items.word(item, JOB_CHUNKS));
  }
  knownKeys(item: number): number {
    const first = this.#items.chunkFirst(item);
    return this.#owned(item, first, first + this.#skippedChunks(item));
  }

  settle(item: number): void {
    const items = this.#items;
    if (items.outcome[item] !== OUTCOME_HIT) return;
    const first = items.chunkFirst(item);
    const end = first + items.word(item, JOB_CHUNKS);
    this.#marks.saved(items.slot(item), items.life(item), items.worker(item), first, end);
  }

  ended(_item: number): number {
    return NONE;
  }

  /** Leading chunks of the job that an earlier one saved. */
  #skippedChunks(item: number): number {
    const items = this.#items;
    const saved = this.#marks.end(items.slot(item), items.life(item), items.worker(item));
    return Math.min(items.word(item, JOB_CHUNKS), Math.max(0, saved - items.chunkFirst(item)));
  }

  #failRest(item: number, outcome: number): void {
    this.#items.fail(item, outcome);
    this.giveUp(item, outcome);
  }

  /** Keys of chunks [from, to) that this rank puts. */
  #owned(item: number, from: number, to: number): number {
    const { putStepOfGroup: step, putPhaseOfGroup: phase } = this.#worker(item);
    let owned = 0;
    for (let group = 0; group < this.#groups; group++)
      owned += putChunkCount(from, to, step[group]!, phase[group]!);
    return owned;
  }

  #worker(item: number): WorkerKeySpace {
    return this.#workers[this.#items.worker(item)]!;
  }
}
