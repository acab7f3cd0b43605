import type { Tables } from "../../blocks/tables.ts";
import { KvEventWriter } from "../../events/event-records.ts";
import type { RuntimePlan } from "../plan.ts";

/** The calling thread's writer of KV events for an actor; undefined when that actor makes none. */
export function openThreadEvents(
  plan: Pick<RuntimePlan, "eventRings">,
  actor: number,
  tables: Tables,
): KvEventWriter | undefined {
  const ring = plan.eventRings?.[actor];
  return ring === undefined
    ? undefined
    : new KvEventWriter(ring, tables, tables.dimensions.hashBlockSize);
}
