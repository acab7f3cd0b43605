import { ACTOR_LOADER, OUTCOME_TIMEOUT } from "../actors/messages.ts";
import {
  JOB_GENERATION,
  JOB_HANDED_OUT,
  JOB_LOCAL_TOKENS,
  JOB_TICKET,
  NONE,
} from "../blocks/layout.ts";
import type { Tables } from "../blocks/tables.ts";
import type { HitRules } from "../keys/coordinator/hit-rules.ts";
import type { Deadlines } from "../blocks/deadlines.ts";
import type { ConnectorMetadata } from "./hooks.ts";
import type { Jobs } from "./jobs.ts";
import type { LoadSpecs } from "./load-specs.ts";
import type { ConnectorCounters, SchedulerPorts } from "./ports.ts";
import type { Unstarted } from "./unstarted.ts";

/** What `Loads.ended` returns for a failed load, for whoever reads a report before it is applied. */
export function firstBadChunk(
  tables: Tables,
  job: number,
  badChunk: number,
  rules: HitRules,
): number {
  const whole = badChunk === NONE || (!rules.uniform && rules.groups.length > 1);
  if (!whole) return badChunk;
  const local = tables.jobs[tables.job(job) + JOB_LOCAL_TOKENS]!;
  return Math.floor(local / tables.dimensions.blockSize);
}

/** The load of each request: written when its blocks are allocated, announced with the step, given up, ended. */
export class Loads {
  readonly #ports: SchedulerPorts;
  readonly #rules: HitRules;
  readonly #jobs: Jobs;
  readonly #deadlines: Deadlines;
  readonly #unstarted: Unstarted;
  readonly #counters: ConnectorCounters;
  /** The load job that a request waits for, or NONE. */
  readonly #ofSlot: Int32Array;
  readonly #failures: Int32Array;
  /** 1: cancelled because it was overdue. */
  readonly #overdue: Uint8Array;
  /** Loads of this step. */
  readonly #pending: Int32Array;
  #pendingCount = 0;

  constructor(
    ports: SchedulerPorts,
    rules: HitRules,
    jobs: Jobs,
    deadlines: Deadlines,
    unstarted: Unstarted,
    counters: ConnectorCounters,
  ) {
    const { requestSlots, jobSlots } = ports.tables.dimensions;
    this.#ports = ports;
    this.#rules = rules;
    this.#jobs = jobs;
    this.#deadlines = deadlines;
    this.#unstarted = unstarted;
    this.#counters = counters;
    this.#ofSlot = new Int32Array(requestSlots).fill(NONE);
    this.#failures = new Int32Array(requestSlots);
    this.#overdue = new Uint8Array(jobSlots);
    this.#pending = new Int32Array(jobSlots);
  }

  added(slot: number): void {
    this.#ofSlot[slot] = NONE;
    this.#failures[slot] = 0;
  }
  of(slot: number): number {
    return this.#ofSlot[slot]!;
  }
  /** Failed loads of the request so far. */
  failures(slot: number): number {
    return this.#failures[slot]!;
  }

  /** Writes down what was offered to the request and taken. */
  create(slot: number, specs: LoadSpecs): void {
    const [local, pool] = [specs.localTokens(slot), specs.poolTokens(slot)];
    const job = this.#jobs.createLoad(slot, local, pool, specs.tails.words, specs.tails.at(slot));
    this.#ofSlot[slot] = job;
    this.#overdue[job] = 0;
    this.#pending[this.#pendingCount++] = job;
  }

  announce(metadata: ConnectorMetadata): void {
    const { settings } = this.#ports;
    const deadline = this.#ports.nowMs() + settings.loadTimeoutMs;
    for (let index = 0; index < this.#pendingCount; index++) {
      const job = this.#pending[index]!;
      this.#jobs.start(job, deadline);
      this.#deadlines.set(job, deadline);
      metadata.loads[metadata.loadCount++] = job;
    }
    metadata.hasSyncLoads = metadata.loadCount > 0 && !settings.loadAsync;
    this.#pendingCount = 0;
  }

  /** The request leaves (finished, preempted): a load in flight is cancelled and keeps its blocks until it is acknowledged. */
  leave(slot: number): void {
    const job = this.#ofSlot[slot]!;
    if (job === NONE) return;
    this.#ofSlot[slot] = NONE;
    for (let index = 0; index < this.#pendingCount; index++) {
      if (this.#pending[index] !== job) continue;
      // Never announced: no engine knows of it.
      this.#pending[index] = this.#pending[--this.#pendingCount]!;
      this.#jobs.release(job);
      return;
    }
    this.#jobs.abandon(job);
    // One that is not started may never be: its deadline releases it. A cancel would come before its load, which the loader would
    // then pass over as answered, while the worker side waits for an answer.
    if (this.#jobs.word(job, JOB_HANDED_OUT) === 0) return;
    // By then the engine is known not to give the blocks back.
    this.#deadlines.set(job, this.#ports.nowMs() + this.#ports.settings.loadTimeoutMs);
    // One cancel for each job: the loader's mailbox is sized by it.
    if (this.#overdue[job] === 0) this.#cancel(job);
  }

  /**
   * A load's deadline has passed: cancelled first; without an acknowledgement for as long again, left to itself. One that was
   * never started is given up at once.
   */
  expired(job: number): boolean {
    const slot = this.#jobs.slot(job);
    const generation = this.#jobs.word(job, JOB_GENERATION);
    this.#ports.trace.record("deadlinePassed", slot, generation, 2, job);
    if (this.#unstarted.release(job)) {
      this.#counters.loadTimeouts++;
      if (slot === NONE) return false;
      this.#ofSlot[slot] = NONE;
      this.#failed(slot);
      return true;
    }
    if (slot === NONE) {
      this.#jobs.lose(job);
      return false;
    }
    if (this.#overdue[job] === 0) {
      this.#overdue[job] = 1;
      this.#counters.loadTimeouts++;
      this.#deadlines.set(job, this.#ports.nowMs() + this.#ports.settings.loadTimeoutMs);
      this.#cancel(job);
      return false;
    }
    this.#ports.log.warn({ job, slot }, "the engine does not acknowledge a cancelled load");
    this.#ofSlot[slot] = NONE;
    this.#failed(slot);
    this.#jobs.lose(job);
    return true;
  }

  /**
   * Takes a finished load from its request. Returns the first chunk that is not there, NONE when all are; a load that failed
   * as a whole is bad from the first chunk on that was not local, and so is any failed load of several groups that need
   * different blocks (vLLM computes such a request from there too).
   */
  ended(job: number, slot: number, outcome: number, badChunk: number, succeeded: boolean): number {
    this.#ofSlot[slot] = NONE;
    if (succeeded) return NONE;
    const { blockSize } = this.#ports.tables.dimensions;
    const bad = firstBadChunk(this.#ports.tables, job, badChunk, this.#rules);
    this.#failed(slot);
    const keptTokens = bad * blockSize;
    const generation = this.#jobs.word(job, JOB_GENERATION);
    this.#ports.trace.record("loadFailed", slot, generation, bad, keptTokens);
    this.#ports.log.warn({ job, slot, outcome, bad }, "a load failed: the rest is computed");
    return bad;
  }

  /** Why the load ended: an answer to a cancelled overdue load is a timeout. */
  outcome(job: number, reported: number): number {
    return this.#overdue[job] === 1 ? OUTCOME_TIMEOUT : reported;
  }

  #cancel(job: number): void {
    const ticket = this.#jobs.word(job, JOB_TICKET);
    this.#ports.send(ACTOR_LOADER, { kind: "cancelLoad", job, ticket });
  }

  #failed(slot: number): void {
    this.#failures[slot] = this.#failures[slot]! + 1;
    this.#counters.failedLoads++;
  }
}
