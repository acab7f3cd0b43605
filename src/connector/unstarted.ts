import { JOB_HANDED_OUT } from "../blocks/layout.ts";
import type { Deadlines } from "../blocks/deadlines.ts";
import type { ConnectorMetadata } from "./hooks.ts";
import type { Jobs } from "./jobs.ts";

/**
 * Jobs that were announced with a step and that no worker side has started, because the loop gave the step up: no engine
 * knows of them and no report will come, so they are released here. Same thread as the worker sides that start them.
 */
export class Unstarted {
  readonly #jobs: Jobs;
  readonly #deadlines: Deadlines;
  readonly #metadata: ConnectorMetadata;

  constructor(jobs: Jobs, deadlines: Deadlines, metadata: ConnectorMetadata) {
    this.#jobs = jobs;
    this.#deadlines = deadlines;
    this.#metadata = metadata;
  }

  /** False (and nothing done) when an actor has the job. */
  readonly release = (job: number): boolean => {
    if (this.#jobs.word(job, JOB_HANDED_OUT) !== 0) return false;
    this.#deadlines.delete(job);
    // The loop may still use the step's metadata, when the record has its next job already.
    const metadata = this.#metadata;
    if (remove(metadata.loads, metadata.loadCount, job)) metadata.loadCount--;
    if (remove(metadata.saves, metadata.saveCount, job)) metadata.saveCount--;
    this.#jobs.release(job);
    return true;
  };
}

function remove(jobs: Int32Array, count: number, job: number): boolean {
  for (let index = 0; index < count; index++) {
    if (jobs[index] !== job) continue;
    jobs.copyWithin(index, index + 1, count);
    return true;
  }
  return false;
}
