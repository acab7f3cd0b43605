import { JOB_RANKS, NONE } from "../blocks/layout.ts";
import type { Tables } from "../blocks/tables.ts";
import type { ConnectorOutput } from "./hooks.ts";
import { addDoneLoad, addDoneSave } from "./outputs.ts";

/**
 * Merges the outputs of several ranks: a job passes once every rank of its JOB_RANKS word has reported it, with the first
 * bad chunk and the worst outcome of all (outcome codes grow with severity from OUTCOME_HIT on). vLLM's KVOutputAggregator.
 */
export class OutputAggregator {
  /** Reports of ranks that had reported the job before, or do not belong to it. */
  staleReports = 0;
  readonly #tables: Tables;
  /** Bits of the ranks that have reported; 0 again when the job has passed. */
  readonly #reported: Int32Array;
  readonly #badChunk: Int32Array;
  readonly #outcome: Int32Array;

  constructor(tables: Tables) {
    const { jobSlots } = tables.dimensions;
    this.#tables = tables;
    this.#reported = new Int32Array(jobSlots);
    this.#badChunk = new Int32Array(jobSlots);
    this.#outcome = new Int32Array(jobSlots);
  }

  /** Takes what rank `worker` has collected and appends to `into` the jobs that are complete by it. */
  add(worker: number, from: ConnectorOutput, into: ConnectorOutput): void {
    for (let index = 0; index < from.doneLoadCount; index++) {
      const job = from.doneLoads[index]!;
      if (!this.#report(job, worker, from.loadOutcomes[index]!, from.badChunks[index]!)) continue;
      addDoneLoad(into, job, this.#outcome[job]!, this.#badChunk[job]!);
    }
    for (let index = 0; index < from.doneSaveCount; index++) {
      const job = from.doneSaves[index]!;
      if (!this.#report(job, worker, from.saveOutcomes[index]!, NONE)) continue;
      addDoneSave(into, job, this.#outcome[job]!);
    }
  }

  #report(job: number, worker: number, outcome: number, badChunk: number): boolean {
    const bit = 1 << worker;
    const reported = this.#reported[job]!;
    if ((this.#ranks(job) & bit) === 0 || (reported & bit) !== 0) {
      this.staleReports++;
      return false;
    }
    if (reported === 0) {
      this.#outcome[job] = outcome;
      this.#badChunk[job] = badChunk;
    } else {
      this.#outcome[job] = Math.max(this.#outcome[job]!, outcome);
      const before = this.#badChunk[job]!;
      if (before === NONE || (badChunk !== NONE && badChunk < before))
        this.#badChunk[job] = badChunk;
    }
    this.#reported[job] = reported | bit;
    if (this.#reported[job] !== this.#ranks(job)) return false;
    this.#reported[job] = 0;
    return true;
  }

  #ranks(job: number): number {
    return this.#tables.jobs[this.#tables.job(job) + JOB_RANKS]!;
  }
}
