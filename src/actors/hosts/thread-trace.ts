import type { NativeBinding } from "../../native/binding.ts";
import { NO_TRACE, type TraceWriter } from "../../trace/events.ts";
import { RingTraceWriter } from "../../trace/ring.ts";
import type { RuntimePlan } from "../plan.ts";

/** The calling thread's trace writer for an actor: its ring, on the runtime's common clock. */
export function openThreadTrace(
  plan: RuntimePlan,
  actor: number,
  epoch: number,
  native: NativeBinding,
): TraceWriter {
  const ring = plan.traceRings?.[actor];
  if (ring === undefined) return NO_TRACE;
  const origin = plan.originNanoseconds;
  return new RingTraceWriter(ring, epoch, () => (native.monotonicNanoseconds() - origin) / 1000);
}
