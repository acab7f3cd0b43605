import { OUTCOME_NAMES } from "../messages.ts";
import { INSPECTED_MAX } from "../step.ts";
import type { JobItems } from "./job-items.ts";

/** Jobs in hand, the oldest first. */
export function inspectJobs(items: JobItems, nowMs: number): Readonly<Record<string, unknown>> {
  const active: number[] = [];
  for (let item = 0; item < items.count; item++) if (items.active[item] === 1) active.push(item);
  active.sort((one, other) => items.beganMs[one]! - items.beganMs[other]!);
  const jobs = active.slice(0, INSPECTED_MAX).map((item) => ({
    job: items.job(item),
    worker: items.worker(item),
    slot: items.slot(item),
    generation: items.generation(item),
    ageMs: Math.round(nowMs - items.beganMs[item]!),
    untilDeadlineMs: Math.round(items.deadlineMs(item, nowMs) - nowMs),
    batchesInFlight: items.inFlight[item],
    outcomeSoFar: OUTCOME_NAMES[items.outcome[item]!],
    ofDeadPredecessor: items.orphan[item] === 1,
  }));
  return { jobs, jobsNotListed: Math.max(0, active.length - INSPECTED_MAX) };
}
