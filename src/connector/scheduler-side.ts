import { recordStale } from "../actors/mailbox/stale.ts";
import { ACTOR_LOADER, ACTOR_LOOKUP, ACTOR_SAVER, OUTCOME_NONE } from "../actors/messages.ts";
import {
  NONE,
  REQUEST_FLAG_NO_REUSE,
  REQUEST_FLAGS,
  REQUEST_GENERATION,
  REQUEST_LIFE,
} from "../blocks/layout.ts";
import { brokenInvariant } from "../errors.ts";
import type { HitRules } from "../keys/coordinator/hit-rules.ts";
import { Deadlines } from "../blocks/deadlines.ts";
import { EngineHealth } from "./engine-health.ts";
import { Hashes } from "./hashes.ts";
import {
  FAILURE_BASE,
  type BoundaryState,
  type ConnectorMetadata,
  type ConnectorOutput,
  type SchedulerHooks,
  type SchedulerSideMessage,
} from "./hooks.ts";
import { JobEnds } from "./job-ends.ts";
import { Jobs } from "./jobs.ts";
import { Loads } from "./loads.ts";
import { Lookups } from "./lookups.ts";
import { Offers } from "./offers.ts";
import { createConnectorMetadata } from "./outputs.ts";
import { createCounters, rulesOf } from "./ports.ts";
import type { ConnectorCounters, SchedulerPorts } from "./ports.ts";
import { PoolGate } from "./pool-gate.ts";
import { Saves } from "./saves.ts";
import { RANKS_MAX } from "./settings.ts";
import { Trackers } from "./trackers.ts";
import { Unstarted } from "./unstarted.ts";

/** The scheduler side of the store connector: vLLM's MooncakeStoreScheduler, by slot. See hooks.ts for each call. */
export class SchedulerSide implements SchedulerHooks {
  readonly counters: ConnectorCounters = createCounters();
  readonly health: EngineHealth;
  readonly gate: PoolGate;
  readonly #ports: SchedulerPorts;
  readonly #lookups: Lookups;
  readonly #hashes: Hashes;
  readonly #trackers: Trackers;
  readonly #offers: Offers;
  readonly #jobs: Jobs;
  readonly #loads: Loads;
  readonly #metadata: ConnectorMetadata;
  readonly #saves: Saves;
  readonly #ends: JobEnds;
  readonly #live: Uint8Array;
  readonly #rules: HitRules;

  constructor(ports: SchedulerPorts) {
    const { requestSlots, jobSlots } = ports.tables.dimensions;
    if (!(ports.ranks >= 1 && ports.ranks <= RANKS_MAX))
      brokenInvariant(`ranks must be between 1 and ${RANKS_MAX}`, ports.ranks);
    this.#ports = ports;
    this.health = new EngineHealth(ports.trace, ports.log);
    const rules = rulesOf(ports);
    this.#rules = rules;
    this.#lookups = new Lookups(ports, this.health, this.counters);
    this.gate = new PoolGate(ports, this.#lookups);
    this.#hashes = new Hashes(ports, this.counters);
    this.#trackers = new Trackers(ports.tables, ports.settings, rules);
    this.#jobs = new Jobs(ports, rules);
    const deadlines = new Deadlines(jobSlots);
    this.#metadata = createConnectorMetadata(jobSlots);
    const unstarted = new Unstarted(this.#jobs, deadlines, this.#metadata);
    this.#loads = new Loads(ports, rules, this.#jobs, deadlines, unstarted, this.counters);
    const parts = {
      rules,
      health: this.health,
      gate: this.gate,
      jobs: this.#jobs,
      loads: this.#loads,
      lookups: this.#lookups,
      hashes: this.#hashes,
      trackers: this.#trackers,
      deadlines,
      unstarted,
      counters: this.counters,
    };
    this.#saves = new Saves(ports, parts);
    this.#ends = new JobEnds(ports, { ...parts, saves: this.#saves });
    this.#offers = new Offers(ports, parts);
    this.#live = new Uint8Array(requestSlots);
  }

  /** After a restart, before any request: jobs of the dead scheduler side keep their blocks until they are reported. */
  adopt(): void {
    this.#jobs.adopt();
  }

  requestAdded(slot: number): void {
    if (this.#live[slot] === 1) brokenInvariant("request is announced twice", slot);
    this.#live[slot] = 1;
    this.#beginLife(slot);
    this.#lookups.added(slot);
    this.#loads.added(slot);
    // Read once, here: other bits of the word may change at any time (aborts). Pairs with the owner's Atomics.or.
    const { tables } = this.#ports;
    const flags = Atomics.load(tables.requests, tables.request(slot) + REQUEST_FLAGS);
    const reuse = (flags & REQUEST_FLAG_NO_REUSE) === 0;
    this.#trackers.added(slot, reuse);
    this.#hashes.added(slot, reuse);
  }

  receive(message: SchedulerSideMessage): boolean {
    if (message.kind === "actorRestarted") {
      if (message.actor !== ACTOR_LOOKUP) return true;
      this.#lookups.actorRestarted();
      this.#hashes.actorRestarted();
      return true;
    }
    if (message.kind === "actorGone") return this.#actorGone(message.actor);
    const { slot, generation } = message;
    const stale = this.counters.staleMessages;
    let ended = false;
    // A slot keeps its generation until nothing of it is in flight: any other generation was released before.
    if (this.#record(slot, REQUEST_GENERATION) !== generation) this.counters.staleMessages++;
    else if (message.kind === "hashed") ended = this.#hashes.done(slot, message.blocks);
    else ended = this.#lookups.done(slot, message.attempt);
    if (this.counters.staleMessages !== stale) recordStale(this.#ports, message);
    return ended;
  }

  #actorGone(actor: number): true {
    const lookup = actor === ACTOR_LOOKUP;
    if (lookup || actor === ACTOR_LOADER) this.#lookups.actorGone(lookup);
    if (lookup) this.#hashes.lookupGone();
    if (actor === ACTOR_SAVER) this.#saves.saverGone();
    return true;
  }

  hashing(slot: number): boolean {
    return this.#hashes.pending(slot);
  }
  hashTo(slot: number, tokens: number): boolean {
    return this.#hashes.cover(slot, tokens);
  }

  matchedTokens(slot: number, computedTokens: number): number {
    const { settings } = this.#ports;
    if (!settings.enableLookup || !this.#trackers.reuses(slot)) return 0;
    const tokens = this.#trackers.tokens(slot);
    if (tokens < this.#rules.alignmentTokens) return 0;
    if (this.#loads.failures(slot) > (settings.loadRetriesMax ?? 0))
      return FAILURE_BASE - this.#lookups.outcome(slot);
    const refusal = this.gate.refusal();
    if (refusal !== OUTCOME_NONE) return this.#lookups.refuse(slot, refusal);
    // Whoever looks up a resumed request finds the hashes of its generated blocks in the row.
    this.#hashes.cover(slot, tokens);
    const hit = this.#lookups.poll(slot, tokens, this.#hashes.blocks(slot));
    if (hit < 0) return hit;
    return this.#offers.offer(slot, computedTokens, hit);
  }

  blocksAllocated(slot: number, externalTokens: number): void {
    this.#offers.taken(slot, externalTokens);
  }

  stateReached(slot: number, group: number, block: number, tokens: number): void {
    this.#saves.stateReached(slot, group, block, tokens);
  }
  finalStates(slot: number, states: readonly BoundaryState[], computedTokens: number): void {
    this.#saves.finalStates(slot, states, computedTokens);
  }

  scheduled(slot: number, computedTokens: number, tokens: number): void {
    this.#saves.scheduled(slot, computedTokens, tokens);
  }

  preempted(slot: number): void {
    this.#leave(slot);
    this.#beginLife(slot);
  }

  requestFinished(slot: number, computedTokens?: number, lendsRow = false): boolean {
    if (this.#live[slot] === 0) brokenInvariant("request is finished twice", slot);
    this.#live[slot] = 0;
    const kept = this.#saves.keep(slot, computedTokens, lendsRow);
    // What is kept goes on by what is known of the request.
    this.#leave(slot, kept);
    return kept;
  }

  settleSaves(visit: (slot: number) => void): ConnectorMetadata | null {
    return this.#saves.settle(visit);
  }
  giveWay(visit: (slot: number) => void): boolean {
    return this.#saves.owed.giveWay(visit);
  }

  buildMetadata(): ConnectorMetadata {
    const metadata = this.#metadata;
    metadata.loadCount = 0;
    metadata.saveCount = 0;
    this.#offers.closeStep();
    this.#saves.announce(metadata);
    this.#loads.announce(metadata);
    this.#ports.flushWakes();
    return metadata;
  }

  dropStep(): void {
    this.#saves.dropStep();
  }
  stepRan(): void {
    this.#saves.stepRan();
  }

  applyOutput(output: ConnectorOutput): void {
    this.#ends.applyOutput(output);
  }

  inFlight(slot: number): number {
    const hashing = this.#hashes.pending(slot) ? 1 : 0;
    const owed = this.#saves.owed.has(slot) ? 1 : 0;
    return hashing + owed + this.#lookups.outstanding(slot) + this.#jobs.ofSlot(slot);
  }
  quarantinedBlocks(): number {
    return this.#jobs.quarantine.blocks;
  }
  outcome(slot: number): number {
    return this.#lookups.outcome(slot);
  }
  jobSlot(job: number): number {
    return this.#jobs.slot(job);
  }
  liveJobs(): number {
    return this.#jobs.liveRecords();
  }
  /** Lookups that requests wait for. */
  waitingLookups(): number {
    return this.#lookups.waiting();
  }
  /** The request waits for a load (or will, once the step is closed). */
  loading(slot: number): boolean {
    return this.#loads.of(slot) !== NONE;
  }

  nextDeadlineMs(): number {
    const owed = this.#saves.owed.nextDeadlineMs();
    return Math.min(owed, this.#lookups.nextDeadlineMs(), this.#ends.nextDeadlineMs());
  }

  expire(visit: (slot: number, loadLost: boolean) => void): void {
    this.#lookups.expire(visit);
    this.#ends.expire(visit);
  }

  #leave(slot: number, keepsTracker = false): void {
    this.#offers.drop(slot);
    this.#loads.leave(slot);
    this.#lookups.reset(slot);
    if (!keepsTracker) this.#trackers.reset(slot);
    this.#saves.leave(slot);
  }

  /** What savers know of an earlier life's saves says nothing of this one's, as vLLM forgets a preempted id. */
  #beginLife(slot: number): void {
    const { tables } = this.#ports;
    const at = tables.request(slot) + REQUEST_LIFE;
    tables.requests[at] = (tables.requests[at]! + 1) | 0;
  }

  #record(slot: number, word: number): number | undefined {
    return this.#ports.tables.requests[this.#ports.tables.request(slot) + word];
  }
}
