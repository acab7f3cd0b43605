import { JOB_PROMPT_TOKENS, JOB_TOKENS, NONE } from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import { saveJob } from "../../connector/worker/save-job.ts";
import type { SaveEnd, SaveJob, SaveMemory, SaveRank } from "../../connector/worker/save-job.ts";
import type { HitRules } from "../../keys/coordinator/hit-rules.ts";
import type { EngineChannel } from "../../store/engine.ts";
import type { WorkerKeySpace } from "../../store/key-spaces.ts";
import type { JobItems } from "../jobs/job-items.ts";
import { outcomeOfCode } from "../jobs/outcomes.ts";
import { PlannedJobs } from "../jobs/planned-jobs.ts";
import { PlannedRows } from "../jobs/planned-rows.ts";
import {
  OUTCOME_CANCELLED,
  OUTCOME_ENGINE_ERROR,
  OUTCOME_HIT,
  OUTCOME_NO_SPACE,
} from "../messages.ts";
import type { Pressure } from "./pressure.ts";
import { RequestTurns } from "./request-turns.ts";
import type { SavedMarks } from "./saved-marks.ts";
import type { SaveWork } from "./save-work.ts";
import type { StoredBlocks } from "./stored-blocks.ts";

/**
 * Saves of models whose groups need different blocks, or whose blocks are several values: the rule of `saveJob`. Jobs start at
 * token 0; what of it is saved already is known here, for each worker side. Saves of one request follow one another.
 */
export class PlannedSaves implements SaveWork {
  readonly #items: JobItems;
  readonly #rules: HitRules;
  readonly #ranks: readonly SaveRank[];
  readonly #marks: SavedMarks;
  readonly #pressure: Pressure;
  readonly #stored: StoredBlocks | null;
  readonly #rows: PlannedRows;
  readonly #jobs: PlannedJobs<SaveEnd>;
  readonly #turns: RequestTurns;

  constructor(
    tables: Tables,
    items: JobItems,
    workers: readonly WorkerKeySpace[],
    rules: HitRules,
    marks: SavedMarks,
    pressure: Pressure,
    stored: StoredBlocks | null,
  ) {
    this.#items = items;
    this.#rules = rules;
    this.#ranks = workers.map((worker) => ({
      rules,
      turns: worker.putStepOfGroup.map((putStep, group) => ({
        putStep,
        putPhase: worker.putPhaseOfGroup[group]!,
      })),
      shardsOfGroup: worker.ownPrefixesOfGroup.map((own) => own.length),
    }));
    this.#marks = marks;
    this.#pressure = pressure;
    this.#stored = stored;
    this.#rows = new PlannedRows(tables);
    this.#jobs = new PlannedJobs(items, workers);
    this.#turns = new RequestTurns(tables.dimensions.requestSlots * workers.length, items.count);
  }

  begin(item: number): void {
    const items = this.#items;
    this.#jobs.forget(item);
    // Its predecessor's batches are only waited for.
    if (items.orphan[item] === 1) return;
    this.#marks.seen(items.slot(item), items.life(item));
    const place = items.slot(item) * items.workers + items.worker(item);
    if (this.#turns.enter(place, item)) this.#start(item);
  }

  keys(item: number): number {
    return this.#jobs.wantedKeys(item);
  }
  hasMore(item: number): boolean {
    return this.#jobs.hasMore(item);
  }
  isDone(item: number): boolean {
    return !this.#turns.waits(item) && this.#jobs.isDone(item);
  }
  submitNext(item: number, batch: number, engine: EngineChannel): number {
    return this.#jobs.submitNext(item, batch, engine);
  }

  existsDone(item: number, batch: number, engine: EngineChannel): number {
    const status = engine.status(batch);
    if (status < 0) this.#items.fail(item, outcomeOfCode(status));
    this.#jobs.completed(item, batch, engine);
    return 0;
  }

  putDone(
    item: number,
    batch: number,
    engine: EngineChannel,
    _failed: number,
    refused: number,
  ): void {
    // Asking on would only push out what others have just written.
    if (refused > 0) this.#jobs.cut(item);
    this.#jobs.completed(item, batch, engine);
  }

  giveUp(item: number, outcome: number): void {
    if (this.#turns.waits(item)) {
      this.#items.fail(item, outcome);
      this.#turns.leave(item);
    } else this.#jobs.giveUp(item, outcome);
  }

  wantedKeys(item: number): number {
    return this.#jobs.wantedKeys(item);
  }
  knownKeys(_item: number): number {
    return 0;
  }

  settle(item: number): void {
    const items = this.#items;
    const end = this.#jobs.end(item);
    if (end === null) return;
    if (end.kind === "passed_over") {
      this.#pressure.skipped++;
      items.fail(item, OUTCOME_NO_SPACE);
    } else if (end.kind === "stale") items.fail(item, OUTCOME_CANCELLED);
    // A rule may end without storing all although no key failed: the outcome says so in any case.
    else if (end.kind === "failed" && items.outcome[item] === OUTCOME_HIT)
      items.fail(item, OUTCOME_ENGINE_ERROR);
    if (end.stored.length > 0)
      this.#stored?.saved(items.slot(item), items.generation(item), end.stored);
  }

  ended(item: number): number {
    this.#jobs.forget(item);
    const next = this.#turns.leave(item);
    if (next !== NONE) this.#start(next);
    return next;
  }

  #start(item: number): void {
    const job = this.#items.job(item);
    const rank = this.#ranks[this.#items.worker(item)]!;
    const steps = saveJob(rank, this.#memory(item), this.#job(item));
    this.#jobs.begin(item, steps, this.#rows.hashRows(job));
  }

  #job(item: number): SaveJob {
    const items = this.#items;
    const job = items.job(item);
    const tokens = items.word(item, JOB_TOKENS);
    const promptTokens = items.word(item, JOB_PROMPT_TOKENS);
    const boundaryPuts = this.#rows.boundaryPuts(job);
    // The scheduler side names no state whose hash is not in the row.
    const named = boundaryPuts.reduce((most, put) => Math.max(most, put.tokens), tokens);
    return {
      tokens,
      promptTokens: promptTokens === NONE ? null : promptTokens,
      hashes: Math.floor(named / this.#rules.hashBlockSize),
      blocks: this.#rows.blocks(job),
      boundaryPuts,
    };
  }

  /** What the rule knows of the request: here it is known by slot and life. */
  #memory(item: number): SaveMemory {
    const [items, marks, pressure] = [this.#items, this.#marks, this.#pressure];
    const slot = items.slot(item);
    const life = items.life(item);
    const worker = items.worker(item);
    return {
      isLive: () => marks.isLatest(slot, life),
      passesOver: () => pressure.skips(slot, life),
      savedTokens: () => marks.end(slot, life, worker),
      recordSaved: (tokens) => marks.saved(slot, life, worker, 0, tokens),
      refused: () => pressure.refused(slot, life),
      relieved: () => pressure.succeeded(slot, life),
    };
  }
}
