import type { SchedulerCore } from "./core.ts";

/** Brings the gauges among the counters up to date: once a step, in constant time. */
export function updateGauges(core: SchedulerCore): void {
  const { counters, states, allocator, connector } = core;
  counters.live = states.live();
  counters.waiting = states.waiting.size;
  counters.parkedHashes = states.parkedHashes.size;
  counters.parkedLookup = states.parkedLookup.size;
  counters.parkedLoad = states.parkedLoad.size;
  counters.loaded = states.loaded.size;
  counters.running = states.running.size;
  counters.draining = states.draining.size;
  counters.freeBlocks = allocator.freeBlocks();
  counters.cachedBlocks = allocator.cache.size();
  counters.pinnedBlocks = allocator.pinnedBlocks();
  counters.evictions = allocator.evictions;
  if (connector === null) return;
  const { hooks } = connector;
  counters.quarantinedBlocks = hooks.quarantinedBlocks();
  counters.loadBackPressure = hooks.counters.loadBackPressure;
  counters.postponedSaves = hooks.counters.postponedSaves;
  counters.savesAfterEnd = hooks.counters.savesAfterEnd;
  counters.lostSaves = hooks.counters.lostSaves;
}
