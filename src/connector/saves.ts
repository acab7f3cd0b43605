import { OUTCOME_CANCELLED, OUTCOME_HIT, OUTCOME_NONE } from "../actors/messages.ts";
import { JOB_CHUNK_FIRST, JOB_GENERATION, NONE } from "../blocks/layout.ts";
import { brokenInvariant } from "../errors.ts";
import type { Deadlines } from "../blocks/deadlines.ts";
import type { Hashes } from "./hashes.ts";
import type { BoundaryState, ConnectorMetadata } from "./hooks.ts";
import type { Jobs } from "./jobs.ts";
import type { Loads } from "./loads.ts";
import type { HitRules } from "../keys/coordinator/hit-rules.ts";
import { createConnectorMetadata } from "./outputs.ts";
import { OwedSaves } from "./owed-saves.ts";
import { checkState, PlannedSaves } from "./planned-saves.ts";
import type { ConnectorCounters, SchedulerPorts } from "./ports.ts";
import type { PoolGate } from "./pool-gate.ts";
import { checkRowBlocks, hasRowBlocks } from "./step-blocks.ts";
import type { Trackers } from "./trackers.ts";
import type { Unstarted } from "./unstarted.ts";

/** The sequences of the step being built, and the save jobs that follow from them. */
export class Saves {
  readonly #ports: SchedulerPorts;
  readonly #jobs: Jobs;
  readonly #loads: Loads;
  readonly #hashes: Hashes;
  readonly #trackers: Trackers;
  readonly #deadlines: Deadlines;
  readonly #unstarted: Unstarted;
  readonly #counters: ConnectorCounters;
  readonly #rules: HitRules;
  readonly #gate: PoolGate;
  /** null where saves follow from chunk numbers alone. */
  readonly #planned: PlannedSaves | null;
  /** Of requests that have ended. */
  readonly owed: OwedSaves;
  readonly #owedMetadata: ConnectorMetadata;
  /** Final states of requests that have ended, for the next step. */
  readonly #final: number[] = [];
  /** In the order of the calls; a slot that leaves before the step is closed is NONE. */
  readonly #slots: Int32Array;
  readonly #computed: Int32Array;
  readonly #tokens: Int32Array;
  #count = 0;
  /** Entries of the step that was built last, while they stand. */
  #built = 0;
  #saverGone = false;

  constructor(
    ports: SchedulerPorts,
    parts: {
      rules: HitRules;
      gate: PoolGate;
      jobs: Jobs;
      loads: Loads;
      hashes: Hashes;
      trackers: Trackers;
      deadlines: Deadlines;
      unstarted: Unstarted;
      counters: ConnectorCounters;
    },
  ) {
    const { requestSlots } = ports.tables.dimensions;
    this.#ports = ports;
    this.#jobs = parts.jobs;
    this.#loads = parts.loads;
    this.#hashes = parts.hashes;
    this.#trackers = parts.trackers;
    this.#deadlines = parts.deadlines;
    this.#unstarted = parts.unstarted;
    this.#counters = parts.counters;
    this.#rules = parts.rules;
    this.#gate = parts.gate;
    this.#planned = parts.rules.uniform ? null : new PlannedSaves(ports, parts);
    this.owed = new OwedSaves(ports, parts);
    this.#owedMetadata = createConnectorMetadata(ports.tables.dimensions.jobSlots);
    this.#slots = new Int32Array(requestSlots);
    this.#computed = new Int32Array(requestSlots);
    this.#tokens = new Int32Array(requestSlots);
  }

  scheduled(slot: number, computedTokens: number, tokens: number): void {
    if (this.#count === 0) this.#built = 0;
    if (this.#count === this.#slots.length)
      brokenInvariant("more sequences in a step than request slots", slot);
    const index = this.#count++;
    this.#slots[index] = slot;
    this.#computed[index] = computedTokens;
    this.#tokens[index] = tokens;
  }

  /** See SchedulerHooks.dropStep. */
  dropStep(): void {
    this.#count = 0;
    this.#built = 0;
    this.#planned?.closeStep();
  }

  /** The request's load failed: what was computed on it is not known to be right. */
  loadFailed(slot: number): void {
    this.#trackers.ran(slot, 0);
  }

  /** A state that is complete with this step (see SchedulerHooks.stateReached). */
  stateReached(slot: number, group: number, block: number, tokens: number): void {
    checkState(this.#rules, group, tokens);
    this.#planned?.handOver(slot, group, block, tokens);
  }

  /** See SchedulerHooks.finalStates. */
  finalStates(slot: number, states: readonly BoundaryState[], computedTokens: number): void {
    if (this.#planned === null || this.#saverGone || this.#gate.refusal() !== OUTCOME_NONE) return;
    const job = this.#planned.createFinal(slot, states, computedTokens);
    if (job === NONE || !this.#admitted(job)) return;
    // A loop that builds no more steps never starts it: its deadline releases it then.
    this.#deadlines.set(job, this.#ports.nowMs() + this.#ports.settings.saveTimeoutMs);
    this.#final.push(job);
  }

  /** The request leaves (finished, preempted): its jobs run on without it, and an open step does without it. */
  leave(slot: number): void {
    this.#jobs.abandonAll(slot);
    this.#planned?.leave(slot);
    for (let index = 0; index < Math.max(this.#count, this.#built); index++)
      if (this.#slots[index] === slot) this.#slots[index] = NONE;
  }

  /** See SchedulerHooks.stepRan. */
  stepRan(): void {
    for (let index = 0; index < this.#built; index++) {
      const slot = this.#slots[index]!;
      if (slot !== NONE) this.#trackers.ran(slot, this.#computed[index]! + this.#tokens[index]!);
    }
    this.#built = 0;
  }

  /** See SchedulerHooks.requestFinished: true when the row is kept for a save that is still due. Call before `leave`. */
  keep(slot: number, computedTokens: number | undefined, lendsRow: boolean): boolean {
    const due = this.#saverGone ? NONE : this.#trackers.ending(slot, computedTokens);
    if (due === NONE) return false;
    if (lendsRow && hasRowBlocks(this.#ports.tables, this.#rules, slot, due))
      return this.owed.keep(slot);
    this.#counters.lostSaves++;
    return false;
  }

  /** See SchedulerHooks.settleSaves. */
  settle(visit: (slot: number) => void): ConnectorMetadata | null {
    if (this.owed.size === 0) return null;
    const metadata = this.#owedMetadata;
    metadata.saveCount = 0;
    this.owed.settle((slot) => this.#makeOwed(slot, metadata), visit);
    return metadata.saveCount === 0 ? null : metadata;
  }

  #makeOwed(slot: number, metadata: ConnectorMetadata): number {
    const due = this.#trackers.ending(slot, this.#trackers.tokenLength(slot));
    const job = due === NONE ? NONE : this.#newJob(slot, due);
    if (job === NONE) return NONE;
    this.#trackers.saved(slot, due);
    if (!this.#admitted(job)) return NONE;
    this.#jobs.abandon(job);
    this.#hand(job, metadata, this.#ports.nowMs() + this.#ports.settings.saveTimeoutMs);
    return job;
  }

  /** The saver was given up: no job is made any more. */
  saverGone(): void {
    this.#saverGone = true;
    this.owed.loseAll();
  }

  /**
   * Closes the step: one save for each sequence that fills a block which no save has taken yet. When it throws, the step is
   * not announced: it has no job, and what it would have saved is still due. Throws INVALID_VALUE for a sequence with fewer
   * blocks than it computes, and what the caller's `pin` throws.
   */
  announce(metadata: ConnectorMetadata): void {
    try {
      if (this.#saverGone) return;
      for (let index = 0; index < this.#count; index++) this.#check(index);
      const deadline = this.#ports.nowMs() + this.#ports.settings.saveTimeoutMs;
      for (let index = 0; index < this.#count; index++) this.#announce(index, metadata, deadline);
      this.#announceStates(metadata, deadline);
      this.#announceFinal(metadata, deadline);
    } catch (error) {
      this.#undo(metadata);
      throw error;
    } finally {
      // An entry that was refused once would be refused with every later step.
      this.#built = this.#count;
      this.#count = 0;
      this.#planned?.closeStep();
    }
  }

  /** States that no other save of the step took. */
  #announceStates(metadata: ConnectorMetadata, deadline: number): void {
    const planned = this.#planned;
    if (planned === null || this.#gate.refusal() !== OUTCOME_NONE) return;
    for (let next = planned.nextStates(); next !== null; next = planned.nextStates())
      if (next.job !== NONE && this.#admitted(next.job)) this.#hand(next.job, metadata, deadline);
  }

  /** What requests left when they ended. A reset, which pauses the pool, waits for these. */
  #announceFinal(metadata: ConnectorMetadata, deadline: number): void {
    if (this.#final.length === 0) return;
    const refusal = this.#gate.refusal();
    if (refusal !== OUTCOME_NONE && refusal !== OUTCOME_CANCELLED) return;
    for (const job of this.#final) this.#hand(job, metadata, deadline);
    this.#final.length = 0;
  }

  #hand(job: number, metadata: ConnectorMetadata, deadline: number): void {
    this.#jobs.start(job, deadline);
    this.#deadlines.set(job, deadline);
    metadata.saves[metadata.saveCount++] = job;
  }

  #announce(index: number, metadata: ConnectorMetadata, deadline: number): void {
    const slot = this.#slots[index]!;
    if (slot === NONE) return;
    const loading = this.#loads.of(slot) !== NONE;
    const computed = this.#computed[index]!;
    const due = this.#trackers.scheduled(slot, computed, this.#tokens[index]!, loading);
    if (due === NONE) return;
    if (this.#gate.refusal() !== OUTCOME_NONE) return this.#trackers.postponed(slot);
    const job = this.#create(slot, due);
    if (job !== NONE && this.#admitted(job)) this.#hand(job, metadata, deadline);
  }

  /** A reset that began after the first look may have looked for saves before the job was there: then its pause is seen now. */
  #admitted(job: number): boolean {
    if (this.#gate.refusal() === OUTCOME_NONE) return true;
    this.#takeBack(job);
    return false;
  }

  #check(index: number): void {
    const slot = this.#slots[index]!;
    if (slot === NONE) return;
    const { requestName, tables } = this.#ports;
    const loading = this.#loads.of(slot) !== NONE;
    const computed = this.#computed[index]!;
    const tokens = this.#trackers.foresee(slot, computed, this.#tokens[index]!, loading);
    checkRowBlocks(tables, this.#rules, slot, tokens, requestName?.(slot) ?? slot);
  }

  /** A loop whose step was refused does not run it: a save of it would put blocks into the pool that nobody computed. */
  #undo(metadata: ConnectorMetadata): void {
    while (metadata.saveCount > 0) this.#takeBack(metadata.saves[metadata.saveCount - 1]!);
  }

  #takeBack(job: number): void {
    const slot = this.#jobs.slot(job);
    const first = this.#jobs.word(job, JOB_CHUNK_FIRST);
    if (!this.#unstarted.release(job)) brokenInvariant("a save of an open step was started", job);
    if (slot !== NONE)
      this.#trackers.saveUndone(slot, first * this.#ports.tables.dimensions.blockSize);
  }

  ended(job: number, outcome: number): void {
    const slot = this.#jobs.slot(job);
    if (slot === NONE || outcome === OUTCOME_HIT) return;
    const first = this.#jobs.word(job, JOB_CHUNK_FIRST);
    this.#trackers.saveFailed(slot, first * this.#ports.tables.dimensions.blockSize);
  }

  /**
   * The saver gives the job up by the same deadline; its blocks are held until it says so. One that was never started is
   * released here and due again.
   */
  expired(job: number): void {
    this.#counters.saveTimeouts++;
    const generation = this.#jobs.word(job, JOB_GENERATION);
    this.#ports.trace.record("deadlinePassed", this.#jobs.slot(job), generation, 3, job);
    const slot = this.#jobs.slot(job);
    const first = this.#jobs.word(job, JOB_CHUNK_FIRST);
    const final = this.#final.indexOf(job);
    if (final >= 0) this.#final.splice(final, 1);
    if (this.#unstarted.release(job) && slot !== NONE)
      this.#trackers.saveFailed(slot, first * this.#ports.tables.dimensions.blockSize);
  }

  #create(slot: number, tokens: number): number {
    const job = this.#newJob(slot, tokens);
    if (job === NONE) {
      // The high-water mark stays where it is, so the next step tries again.
      this.#counters.postponedSaves++;
      this.#trackers.postponed(slot);
    } else this.#trackers.saved(slot, tokens);
    return job;
  }
  #newJob(slot: number, tokens: number): number {
    if (this.#planned === null) return this.#createChunks(slot, tokens);
    return this.#planned.create(slot, tokens);
  }
  #createChunks(slot: number, tokens: number): number {
    if (!this.#jobs.roomForSave() || !this.#hashes.cover(slot, tokens)) return NONE;
    return this.#jobs.createSave(slot, this.#trackers.saveStart(slot), tokens);
  }
}
