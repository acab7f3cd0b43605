import { COUNTERS, type CounterBlock, GAUGES } from "../../trace/counters.ts";
import { ACTOR_SCHEDULER } from "../messages.ts";
import { PARKED_FOR_HASHES, PARKED_FOR_LOAD, PARKED_FOR_LOOKUP } from "./request-states.ts";

/** What the scheduler counts (first part) and how things stand after its last step (gauges). Plain numbers. */
export interface SchedulerCounters {
  /** Scheduling steps that were applied, and steps that were handed to the model again. */
  steps: number;
  stepRetries: number;
  /** Prompt and answer tokens that the model computed. */
  tokensComputed: number;
  tokensGenerated: number;
  /** Tokens that admitted requests took from local blocks, and that loads brought. */
  tokensFromLocal: number;
  tokensFromPool: number;
  /** Tokens asked for and found at admission: vLLM's prefix_cache and external_prefix_cache counters. */
  prefixCacheQueries: number;
  prefixCacheHits: number;
  externalPrefixCacheQueries: number;
  externalPrefixCacheHits: number;
  preemptions: number;
  loadsAdmitted: number;
  loadsFailed: number;
  /** Loads not started because the pool offered more than the request can hold: it computed. */
  loadsRefused: number;
  /** The connector's: see ConnectorCounters. */
  loadBackPressure: number;
  postponedSaves: number;
  savesAfterEnd: number;
  lostSaves: number;
  /** Waits for hashes that took too long: the request went on without reuse. */
  hashTimeouts: number;
  /** Late, duplicate or unknown messages. */
  staleMessages: number;
  requestsFinished: number;

  // Gauges.
  live: number;
  waiting: number;
  parkedHashes: number;
  parkedLookup: number;
  parkedLoad: number;
  loaded: number;
  running: number;
  draining: number;
  freeBlocks: number;
  cachedBlocks: number;
  pinnedBlocks: number;
  quarantinedBlocks: number;
  evictions: number;
}

export function createSchedulerCounters(): SchedulerCounters {
  return {
    steps: 0,
    stepRetries: 0,
    tokensComputed: 0,
    tokensGenerated: 0,
    tokensFromLocal: 0,
    tokensFromPool: 0,
    prefixCacheQueries: 0,
    prefixCacheHits: 0,
    externalPrefixCacheQueries: 0,
    externalPrefixCacheHits: 0,
    preemptions: 0,
    loadsAdmitted: 0,
    loadsFailed: 0,
    loadsRefused: 0,
    loadBackPressure: 0,
    postponedSaves: 0,
    savesAfterEnd: 0,
    lostSaves: 0,
    hashTimeouts: 0,
    staleMessages: 0,
    requestsFinished: 0,
    live: 0,
    waiting: 0,
    parkedHashes: 0,
    parkedLookup: 0,
    parkedLoad: 0,
    loaded: 0,
    running: 0,
    draining: 0,
    freeBlocks: 0,
    cachedBlocks: 0,
    pinnedBlocks: 0,
    quarantinedBlocks: 0,
    evictions: 0,
  };
}

/**
 * Brings the shared counters up to date. `published` holds what was added before: shared counters go on over restarts, while
 * a successor counts from zero.
 */
export class CounterPublisher {
  readonly #block: CounterBlock;
  readonly #published = createSchedulerCounters();

  constructor(block: CounterBlock) {
    this.#block = block;
    block.resetGauges();
  }

  publish(counters: SchedulerCounters, usableBlocks: number): void {
    this.#add(COUNTERS.prefixCacheQueries, "prefixCacheQueries", counters);
    this.#add(COUNTERS.prefixCacheHits, "prefixCacheHits", counters);
    this.#add(COUNTERS.externalPrefixCacheQueries, "externalPrefixCacheQueries", counters);
    this.#add(COUNTERS.externalPrefixCacheHits, "externalPrefixCacheHits", counters);
    this.#add(COUNTERS.preemptions, "preemptions", counters);
    this.#add(COUNTERS.loadBackPressure, "loadBackPressure", counters);
    this.#add(COUNTERS.postponedSaves, "postponedSaves", counters);
    this.#add(COUNTERS.savesAfterEnd, "savesAfterEnd", counters);
    this.#add(COUNTERS.lostSaves, "lostSaves", counters);
    this.#add(COUNTERS.staleMessages + ACTOR_SCHEDULER, "staleMessages", counters);
    const block = this.#block;
    const parked = counters.parkedHashes + counters.parkedLookup + counters.parkedLoad;
    block.set(GAUGES.requestsRunning, counters.running);
    block.set(GAUGES.requestsWaiting, counters.waiting + counters.loaded + parked);
    block.set(GAUGES.cacheUsage, 1 - counters.freeBlocks / Math.max(1, usableBlocks));
    block.set(GAUGES.requestSlotsInUse, counters.live);
    block.set(GAUGES.pinnedBlocks, counters.pinnedBlocks);
    block.set(GAUGES.quarantinedBlocks, counters.quarantinedBlocks);
    block.set(GAUGES.requestsParked + PARKED_FOR_HASHES - 1, counters.parkedHashes);
    block.set(GAUGES.requestsParked + PARKED_FOR_LOOKUP - 1, counters.parkedLookup);
    block.set(GAUGES.requestsParked + PARKED_FOR_LOAD - 1, counters.parkedLoad);
  }

  #add(series: number, name: keyof SchedulerCounters, counters: SchedulerCounters): void {
    const more = counters[name] - this.#published[name];
    if (more === 0) return;
    this.#block.add(series, more);
    this.#published[name] = counters[name];
  }
}
