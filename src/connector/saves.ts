import { OUTCOME_HIT } from "../actors/messages.ts";
import { JOB_CHUNK_FIRST, JOB_GENERATION, NONE } from "../blocks/layout.ts";
import { brokenInvariant } from "../errors.ts";
import type { Deadlines } from "./deadlines.ts";
import type { Hashes } from "./hashes.ts";
import type { ConnectorMetadata } from "./hooks.ts";
import type { Jobs } from "./jobs.ts";
import type { Loads } from "./loads.ts";
import type { ConnectorCounters, SchedulerPorts } from "./ports.ts";
import type { Trackers } from "./trackers.ts";

/** The sequences of the step being built, and the save jobs that follow from them. */
export class Saves {
  readonly #ports: SchedulerPorts;
  readonly #jobs: Jobs;
  readonly #loads: Loads;
  readonly #hashes: Hashes;
  readonly #trackers: Trackers;
  readonly #deadlines: Deadlines;
  readonly #counters: ConnectorCounters;
  /** In the order of the calls; a slot that leaves before the step is closed is NONE. */
  readonly #slots: Int32Array;
  readonly #computed: Int32Array;
  readonly #tokens: Int32Array;
  #count = 0;
  #saverGone = false;

  constructor(
    ports: SchedulerPorts,
    parts: {
      jobs: Jobs;
      loads: Loads;
      hashes: Hashes;
      trackers: Trackers;
      deadlines: Deadlines;
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
    this.#counters = parts.counters;
    this.#slots = new Int32Array(requestSlots);
    this.#computed = new Int32Array(requestSlots);
    this.#tokens = new Int32Array(requestSlots);
  }

  scheduled(slot: number, computedTokens: number, tokens: number): void {
    if (this.#count === this.#slots.length)
      brokenInvariant("more sequences in a step than request slots", slot);
    const index = this.#count++;
    this.#slots[index] = slot;
    this.#computed[index] = computedTokens;
    this.#tokens[index] = tokens;
  }

  /** The request leaves (finished, preempted) before the step is closed. */
  leave(slot: number): void {
    for (let index = 0; index < this.#count; index++)
      if (this.#slots[index] === slot) this.#slots[index] = NONE;
  }

  /** The saver was given up: no job is made any more. */
  saverGone(): void {
    this.#saverGone = true;
  }

  /** Closes the step: one save for each sequence that fills a block which no save has taken yet. */
  announce(metadata: ConnectorMetadata): void {
    const deadline = this.#ports.nowMs() + this.#ports.settings.saveTimeoutMs;
    if (this.#saverGone) this.#count = 0;
    for (let index = 0; index < this.#count; index++) {
      const slot = this.#slots[index]!;
      if (slot === NONE) continue;
      const loading = this.#loads.of(slot) !== NONE;
      const computed = this.#computed[index]!;
      const due = this.#trackers.scheduled(slot, computed, this.#tokens[index]!, loading);
      if (due === 0) continue;
      const job = this.#create(slot, due);
      if (job === NONE) continue;
      this.#jobs.start(job, deadline);
      this.#deadlines.set(job, deadline);
      metadata.saves[metadata.saveCount++] = job;
    }
    this.#count = 0;
  }

  ended(job: number, outcome: number): void {
    const slot = this.#jobs.slot(job);
    if (slot === NONE || outcome === OUTCOME_HIT) return;
    const first = this.#jobs.word(job, JOB_CHUNK_FIRST);
    this.#trackers.saveFailed(slot, first * this.#ports.tables.dimensions.blockSize);
  }

  /** The saver gives the job up by the same deadline; its blocks are held until it says so. */
  expired(job: number): void {
    this.#counters.saveTimeouts++;
    const generation = this.#jobs.word(job, JOB_GENERATION);
    this.#ports.trace.record("deadlinePassed", this.#jobs.slot(job), generation, 3, job);
  }

  #create(slot: number, tokens: number): number {
    const possible = this.#jobs.freeRecords() > 0 && this.#hashes.cover(slot, tokens);
    const from = this.#trackers.saveStart(slot);
    const job = possible ? this.#jobs.createSave(slot, from, tokens) : NONE;
    if (job === NONE) {
      // The high-water mark stays where it is, so the next step tries again.
      this.#counters.postponedSaves++;
      this.#trackers.postponed(slot);
    } else this.#trackers.saved(slot, tokens);
    return job;
  }
}
