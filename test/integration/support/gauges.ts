import { expect } from "vitest";
import type { Runtime } from "../../../src/actors/runtime/runtime.ts";
import type { Application } from "../../../src/serving/application.ts";
import { COUNTERS, CounterReader, familyOffset } from "../../../src/trace/counters.ts";
import { GAUGE_FAMILIES, seriesCount, seriesLabels } from "../../../src/trace/families.ts";

/** What the pool holds, and how it stands, is no leak: everything else is zero at idle. */
const POOL = new Set([
  "mooncake_kv_pool_bytes",
  "mooncake_kv_pool_capacity_bytes",
  "mooncake_kv_pool_keys",
  "mooncake_kv_pool_closed",
  "mooncake_kv_engine_open",
]);

/** Gauges that are not zero, by their exposed names. */
export function gaugesAboveZero(runtime: Runtime): Record<string, number> {
  const reader = new CounterReader(runtime.plan.counters);
  const found: Record<string, number> = {};
  for (const family of Object.values(GAUGE_FAMILIES)) {
    if (POOL.has(family.name)) continue;
    for (let series = 0; series < seriesCount(family); series++) {
      const value = reader.sum(familyOffset(family) + series);
      if (value !== 0) {
        const labels = Object.values(seriesLabels(family, series)).join(",");
        found[labels === "" ? family.name : `${family.name}{${labels}}`] = value;
      }
    }
  }
  return found;
}

/** Waits until no request, job or engine batch is left; fails with the gauges that stay up. */
export async function settled(application: Application): Promise<void> {
  const { runtime, frontEnd } = application;
  await expect
    .poll(
      () => ({
        idle: frontEnd.idle(),
        inFlight: runtime.native.engineStatistics(runtime.engineId).batchesInFlight,
        ...gaugesAboveZero(runtime),
      }),
      { timeout: 120_000, interval: 5 },
    )
    .toEqual({ idle: true, inFlight: 0 });
}

/** Value of a counter, all actors together. `series`: COUNTERS.name, plus the index of a label's value. */
export function counted(runtime: Runtime, series: number): number {
  return new CounterReader(runtime.plan.counters).sum(series);
}

export function restarts(runtime: Runtime, actor: number): number {
  return counted(runtime, COUNTERS.actorRestarts + actor);
}
