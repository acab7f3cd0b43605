import { ACTOR_LOADER, OUTCOME_TIMEOUT } from "../actors/messages.ts";
import {
  JOB_CHUNK_FIRST,
  JOB_GENERATION,
  JOB_HANDED_OUT,
  JOB_TICKET,
  NONE,
} from "../blocks/layout.ts";
import type { Deadlines } from "../blocks/deadlines.ts";
import type { ConnectorMetadata } from "./hooks.ts";
import type { Jobs } from "./jobs.ts";
import type { ConnectorCounters, SchedulerPorts } from "./ports.ts";
import type { Unstarted } from "./unstarted.ts";

/** The load of each request: written when its blocks are allocated, announced with the step, given up, ended. */
export class Loads {
  readonly #ports: SchedulerPorts;
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
    jobs: Jobs,
    deadlines: Deadlines,
    unstarted: Unstarted,
    counters: ConnectorCounters,
  ) {
    const { requestSlots, jobSlots } = ports.tables.dimensions;
    this.#ports = ports;
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

  create(slot: number, localTokens: number, poolTokens: number): void {
    const job = this.#jobs.createLoad(slot, localTokens, poolTokens);
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
    // One that is not started may never be: its deadline releases it.
    if (this.#jobs.word(job, JOB_HANDED_OUT) !== 0) this.#deadlines.delete(job);
    this.#jobs.abandon(job);
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
    if (slot === NONE) return false;
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
    this.#jobs.abandon(job);
    return true;
  }

  /**
   * Takes a finished load from its request. Returns the first chunk that is not there, NONE when all are; a load that failed
   * as a whole is bad from its first chunk on.
   */
  ended(job: number, slot: number, outcome: number, badChunk: number, succeeded: boolean): number {
    this.#ofSlot[slot] = NONE;
    if (succeeded) return NONE;
    const bad = badChunk === NONE ? this.#jobs.word(job, JOB_CHUNK_FIRST) : badChunk;
    this.#failed(slot);
    const keptTokens = bad * this.#ports.tables.dimensions.blockSize;
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
