import {
  ENTRY_BLOCK,
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_PREFIX,
  ENTRY_WORDS,
  JOB_CHUNKS,
  NONE,
  OPERATION_GET,
} from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import { getRotation } from "../../keys/pool-keys.ts";
import type { StagingBudget } from "../../store/disk-split.ts";
import type { EngineChannel } from "../../store/engine.ts";
import type { WorkerKeySpace } from "../../store/key-spaces.ts";
import { OUTCOME_MISS } from "../messages.ts";
import { JobCursor } from "../jobs/job-cursor.ts";
import type { JobItems } from "../jobs/job-items.ts";
import { keyCode } from "../jobs/outcomes.ts";
import { LoadProgress } from "./load-progress.ts";
import type { LoadWork } from "./load-work.ts";
import { fitsStaging, subBatchEnd } from "./sub-batches.ts";

/** Loads where every group needs every block: what is asked follows from chunk numbers, without an object a job. */
export class UniformLoads implements LoadWork {
  readonly #items: JobItems;
  readonly #workers: readonly WorkerKeySpace[];
  readonly #groups: number;
  readonly #chunkTokens: number;
  readonly #staging: StagingBudget | null;
  readonly #cursor: JobCursor;
  readonly #progress: LoadProgress;
  /** Per batch slot, grown on demand: position of its first key. */
  #batchFrom = new Int32Array(0);

  constructor(
    tables: Tables,
    items: JobItems,
    workers: readonly WorkerKeySpace[],
    staging: StagingBudget | null,
  ) {
    this.#items = items;
    this.#workers = workers;
    this.#groups = tables.dimensions.groups;
    this.#chunkTokens = tables.dimensions.blockSize;
    this.#staging = staging;
    this.#cursor = new JobCursor(tables);
    this.#progress = new LoadProgress(items.count);
  }

  begin(item: number): boolean {
    const total = this.keys(item);
    const { tensorParallelRank, bytesOfGroup } = this.#worker(item);
    this.#progress.begin(item, total, getRotation(tensorParallelRank, total));
    if (this.#staging === null || fitsStaging(bytesOfGroup, this.#staging)) return true;
    this.giveUp(item, OUTCOME_MISS);
    return total === 0;
  }

  keys(item: number): number {
    return this.#cursor.entries(this.#items.job(item));
  }
  tokens(item: number): number {
    return this.#items.word(item, JOB_CHUNKS) * this.#chunkTokens;
  }
  hasMore(item: number): boolean {
    return this.#progress.hasMore(item);
  }
  isDone(item: number): boolean {
    return !this.#progress.hasMore(item);
  }

  submitNext(item: number, batch: number, engine: EngineChannel): number {
    const progress = this.#progress;
    const from = progress.next(item);
    const worker = this.#worker(item);
    const to = subBatchEnd(
      from,
      progress.end(item),
      engine.keysPerBatchMax,
      this.#staging,
      (position) => worker.bytesOfGroup[progress.entryAt(item, position) % this.#groups]!,
    );
    if (to <= from) return 0;
    const entries = engine.entries(batch);
    const cursor = this.#cursor;
    for (let position = from; position < to; position++) {
      const entry = progress.entryAt(item, position);
      if (position === from || entry === 0) cursor.seek(this.#items.job(item), entry);
      cursor.advance();
      const at = (position - from) * ENTRY_WORDS;
      entries[at + ENTRY_GROUP] = cursor.group;
      entries[at + ENTRY_PREFIX] = worker.ownPrefixOfGroup[cursor.group]!;
      entries[at + ENTRY_BLOCK] = cursor.block;
      entries[at + ENTRY_HASH_ROW] = cursor.hashRow;
    }
    if (this.#batchFrom.length < engine.batchSlots)
      this.#batchFrom = new Int32Array(engine.batchSlots);
    this.#batchFrom[batch] = from;
    progress.sentTo(item, to);
    engine.submit(batch, OPERATION_GET, worker.keySpaceId, to - from, item, item);
    return to - from;
  }

  completed(item: number, batch: number, engine: EngineChannel): void {
    const status = engine.status(batch);
    const count = engine.count(batch);
    const results = engine.results(batch);
    const from = this.#batchFrom[batch]!;
    let failed = false;
    for (let index = 0; index < count; index++) {
      if (keyCode(status, results[index]!) >= 0) continue;
      failed = true;
      this.#progress.failed(item, this.#progress.entryAt(item, from + index), this.#groups);
    }
    // With a disk tier the batches follow one another, as vLLM's do: after one that failed there is no other.
    if (failed && this.#staging !== null) this.#progress.giveUp(item);
  }

  giveUp(item: number, outcome: number): void {
    if (this.#progress.giveUp(item)) this.#items.fail(item, outcome);
  }

  badChunk(item: number): number {
    const bad = this.#progress.bad(item);
    return bad === NONE ? NONE : this.#items.chunkFirst(item) + Math.floor(bad / this.#groups);
  }

  #worker(item: number): WorkerKeySpace {
    return this.#workers[this.#items.worker(item)]!;
  }
}
