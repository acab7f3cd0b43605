import { HASH_ALGORITHMS } from "../../config/kv-cache-config.ts";
import { KvEventSource } from "../../events/event-source.ts";
import { ACTOR_SAVER, ACTOR_SCHEDULER } from "../messages.ts";
import type { RuntimePlan } from "../plan.ts";
import type { RuntimeOptions } from "./runtime.ts";

/** The saver tells of the pool's blocks, the built-in scheduler of local ones. */
export function eventActors({ scheduler }: Pick<RuntimeOptions, "scheduler">): number[] {
  return scheduler === null ? [ACTOR_SAVER] : [ACTOR_SCHEDULER, ACTOR_SAVER];
}

/** null when no KV events are made. */
export function openEventSource(
  { kvEvents, kvCache }: Pick<RuntimeOptions, "kvEvents" | "kvCache">,
  { eventRings }: Pick<RuntimePlan, "eventRings">,
): KvEventSource | null {
  if (kvEvents === undefined || eventRings === null) return null;
  return new KvEventSource({
    rings: Object.values(eventRings),
    digestBytes: HASH_ALGORITHMS[kvCache.hashAlgorithm].digestBytes,
    integerHashes: kvEvents.integerHashes,
    groups: kvCache.groups,
  });
}
