import { widenTime } from "../../blocks/int32-time.ts";
import {
  epochState,
  JOB_ANSWERED_WORD,
  JOB_CHUNK_FIRST,
  JOB_DEADLINE_MS,
  JOB_GENERATION,
  JOB_KIND,
  JOB_LIFE,
  JOB_LIVE_WORD,
  JOB_SLOT,
  JOB_STATE_DONE,
  JOB_STATE_NEW,
  JOB_STATE_TAKEN,
  JOB_STATE_WORD,
  JOB_TICKET,
  stateOf,
} from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import { OUTCOME_HIT } from "../messages.ts";
import { worseOutcome } from "./outcomes.ts";

/**
 * Jobs in hand, one item for each (job, worker side): a record of the job table may be worked off for several ranks of this
 * process. Plain arrays by item; item = job * workers + worker.
 */
export class JobItems {
  readonly workers: number;
  readonly count: number;
  readonly active: Uint8Array;
  /** 1: of a dead predecessor; only waits for its batches. */
  readonly orphan: Uint8Array;
  /** 1: reported since the record was announced. */
  readonly answered: Uint8Array;
  /** Batches that the engine has. */
  readonly inFlight: Int32Array;
  readonly outcome: Uint8Array;
  readonly bytes: Float64Array;
  readonly beganMs: Float64Array;
  activeCount = 0;
  readonly #tables: Tables;
  readonly #kind: number;
  readonly #gaugeWord: number;
  /** Per job: worker sides that have not been answered. */
  readonly #unanswered: Int32Array;

  constructor(tables: Tables, workers: number, kind: number, gaugeWord: number) {
    const { jobSlots } = tables.dimensions;
    this.#tables = tables;
    this.#kind = kind;
    this.#gaugeWord = gaugeWord;
    this.workers = workers;
    this.count = jobSlots * workers;
    this.active = new Uint8Array(this.count);
    this.orphan = new Uint8Array(this.count);
    this.answered = new Uint8Array(this.count);
    this.inFlight = new Int32Array(this.count);
    this.outcome = new Uint8Array(this.count);
    this.bytes = new Float64Array(this.count);
    this.beganMs = new Float64Array(this.count);
    this.#unanswered = new Int32Array(jobSlots);
  }

  item(job: number, worker: number): number {
    return job * this.workers + worker;
  }
  job(item: number): number {
    return Math.floor(item / this.workers);
  }
  worker(item: number): number {
    return item % this.workers;
  }
  /** A word of the item's job record. */
  word(item: number, word: number): number {
    return this.#tables.jobs[this.#tables.job(this.job(item)) + word]!;
  }
  slot(item: number): number {
    return this.word(item, JOB_SLOT);
  }
  generation(item: number): number {
    return this.word(item, JOB_GENERATION);
  }
  /** See REQUEST_LIFE. */
  life(item: number): number {
    return this.word(item, JOB_LIFE);
  }
  chunkFirst(item: number): number {
    return this.word(item, JOB_CHUNK_FIRST);
  }
  /** The deadline on the clock of `nowMs`: the record holds its low 32 bits. */
  deadlineMs(item: number, nowMs: number): number {
    return widenTime(this.word(item, JOB_DEADLINE_MS), nowMs);
  }

  /** Live, of this actor's kind, and the use that the ticket names: what a message may be about. */
  knownAs(job: number, ticket: number): boolean {
    return this.known(job) && this.#tables.jobs[this.#tables.job(job) + JOB_TICKET] === ticket;
  }
  /** Live and of this actor's kind. */
  known(job: number): boolean {
    if (!(job >= 0 && job < this.#unanswered.length)) return false;
    const at = this.#tables.job(job);
    // Pairs with the scheduler side's stores when it writes and frees the record.
    return (
      Atomics.load(this.#tables.jobs, at + JOB_LIVE_WORD) === 1 &&
      this.#tables.jobs[at + JOB_KIND] === this.#kind
    );
  }
  state(job: number): number {
    // Pairs with the stores of a dead predecessor (`#publish`), and of the scheduler side when it prepares a record.
    return stateOf(Atomics.load(this.#tables.jobs, this.#tables.job(job) + JOB_STATE_WORD));
  }

  /** The item is in hand from here on. Publishes that first of all: a successor answers only what was taken. */
  take(item: number, epoch: number, nowMs: number): void {
    const job = this.job(item);
    if (this.#unanswered[job] === 0 || this.state(job) === JOB_STATE_NEW) this.open(job, epoch);
    this.active[item] = 1;
    this.activeCount++;
    this.orphan[item] = 0;
    this.inFlight[item] = 0;
    this.outcome[item] = OUTCOME_HIT;
    this.bytes[item] = 0;
    this.beganMs[item] = nowMs;
    this.#gauge(item, 1);
  }

  /** No worker side of this process has been answered yet. */
  open(job: number, epoch: number): void {
    this.#publish(job, epoch, JOB_STATE_TAKEN);
    this.#unanswered[job] = this.workers;
    // Pairs with a restarted worker side's load.
    Atomics.store(this.#tables.jobs, this.#tables.job(job) + JOB_ANSWERED_WORD, 0);
    this.answered.fill(0, job * this.workers, (job + 1) * this.workers);
  }

  /** The report (made before, because the record may be used anew from here on) follows: the last worker side's makes the job done, before it is sent (see the successor's scan). */
  answer(item: number, epoch: number): void {
    const job = this.job(item);
    if (this.active[item] === 1) {
      this.active[item] = 0;
      this.activeCount--;
      this.#gauge(item, -1);
    }
    if (this.answered[item] === 1) return;
    this.answered[item] = 1;
    const bit = 1 << this.worker(item);
    // Pairs with a restarted worker side's load: the bits first, so that a job that is done has them all.
    Atomics.or(this.#tables.jobs, this.#tables.job(job) + JOB_ANSWERED_WORD, bit);
    this.#unanswered[job] = this.#unanswered[job]! - 1;
    if (this.#unanswered[job] === 0) this.#publish(job, epoch, JOB_STATE_DONE);
  }

  fail(item: number, outcome: number): void {
    this.outcome[item] = worseOutcome(this.outcome[item]!, outcome);
  }

  /** A successor counts anew. */
  clearGauges(): void {
    for (let slot = 0; slot < this.#tables.dimensions.requestSlots; slot++)
      this.#tables.requests[this.#tables.request(slot) + this.#gaugeWord] = 0;
  }

  #gauge(item: number, change: number): void {
    const at = this.#tables.request(this.slot(item)) + this.#gaugeWord;
    this.#tables.requests[at] = this.#tables.requests[at]! + change;
  }

  #publish(job: number, epoch: number, state: number): void {
    // Pairs with the loads of a successor, and of a restarted worker side.
    Atomics.store(
      this.#tables.jobs,
      this.#tables.job(job) + JOB_STATE_WORD,
      epochState(epoch, state),
    );
  }
}
