import { JOB_LOCAL_TOKENS, JOB_TOKENS, NONE } from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import { loadJob } from "../../connector/worker/load-job.ts";
import type { LoadEnd, LoadJob, LoadRank } from "../../connector/worker/load-job.ts";
import type { HitRules } from "../../keys/coordinator/hit-rules.ts";
import type { StagingBudget } from "../../store/disk-split.ts";
import type { EngineChannel } from "../../store/engine.ts";
import type { WorkerKeySpace } from "../../store/key-spaces.ts";
import { OUTCOME_HIT, OUTCOME_MISS } from "../messages.ts";
import type { JobItems } from "../jobs/job-items.ts";
import { PlannedJobs } from "../jobs/planned-jobs.ts";
import { PlannedRows } from "../jobs/planned-rows.ts";
import type { LoadWork } from "./load-work.ts";

/** Loads of models whose groups need different blocks, or whose blocks are several values: the rule of `loadJob`. */
export class PlannedLoads implements LoadWork {
  readonly #items: JobItems;
  readonly #rules: HitRules;
  readonly #ranks: readonly LoadRank[];
  readonly #rows: PlannedRows;
  readonly #jobs: PlannedJobs<LoadEnd>;

  constructor(
    tables: Tables,
    items: JobItems,
    workers: readonly WorkerKeySpace[],
    rules: HitRules,
    staging: StagingBudget | null,
  ) {
    this.#items = items;
    this.#rules = rules;
    this.#ranks = workers.map((worker) => ({
      rules,
      tpRank: worker.tensorParallelRank,
      shardsOfGroup: worker.ownPrefixesOfGroup.map((own) => own.length),
      bytesOfGroup: worker.bytesOfGroup,
      staging,
    }));
    this.#rows = new PlannedRows(tables);
    this.#jobs = new PlannedJobs(items, workers);
  }

  begin(item: number): boolean {
    this.#jobs.forget(item);
    if (this.#items.orphan[item] === 1) return true;
    const job = this.#items.job(item);
    const rank = this.#ranks[this.#items.worker(item)]!;
    this.#jobs.begin(item, loadJob(rank, this.#job(item)), this.#rows.hashRows(job));
    if (this.#jobs.end(item)?.loaded !== false) return true;
    this.#items.fail(item, OUTCOME_MISS);
    return false;
  }

  keys(item: number): number {
    return this.#jobs.wantedKeys(item);
  }
  tokens(item: number): number {
    return this.#items.word(item, JOB_TOKENS) - this.#items.word(item, JOB_LOCAL_TOKENS);
  }
  hasMore(item: number): boolean {
    return this.#jobs.hasMore(item);
  }
  isDone(item: number): boolean {
    return this.#jobs.isDone(item);
  }
  submitNext(item: number, batch: number, engine: EngineChannel): number {
    return this.#jobs.submitNext(item, batch, engine);
  }

  completed(item: number, batch: number, engine: EngineChannel): void {
    // With several groups one lost block is the whole request's loss, so that the rest need not be asked for.
    if (this.#rules.groups.length > 1 && this.#items.outcome[item] !== OUTCOME_HIT)
      this.#jobs.cut(item);
    this.#jobs.completed(item, batch, engine);
  }

  giveUp(item: number, outcome: number): void {
    this.#jobs.giveUp(item, outcome);
  }

  /**
   * One group: the first chunk whose block is lost. Several: ids tell nothing of the group, so that everything that is not local
   * counts as lost, as in vLLM. Chunks are `blockTokens` tokens long.
   */
  badChunk(item: number): number {
    const end = this.#jobs.end(item);
    if (end?.loaded === true) return NONE;
    if (end === null && this.#items.outcome[item] === OUTCOME_HIT) return NONE;
    const local = Math.floor(this.#items.word(item, JOB_LOCAL_TOKENS) / this.#rules.blockTokens);
    if (end === null || this.#rules.groups.length > 1) return local;
    const lost = new Set(end.invalidBlocks);
    const row = this.#rows.blocks(this.#items.job(item))[0]!;
    const chunk = row.findIndex((block, index) => index >= local && lost.has(block));
    return chunk < 0 ? local : chunk;
  }

  #job(item: number): LoadJob {
    const job = this.#items.job(item);
    return {
      hitTokens: this.#items.word(item, JOB_TOKENS),
      localTokens: this.#items.word(item, JOB_LOCAL_TOKENS),
      tailTokens: this.#rows.tailTokens(job),
      blocks: this.#rows.blocks(job),
    };
  }
}
