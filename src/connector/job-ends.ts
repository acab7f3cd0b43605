import { OUTCOME_HIT, OUTCOME_TIMEOUT } from "../actors/messages.ts";
import type { Deadlines } from "../blocks/deadlines.ts";
import { NONE } from "../blocks/layout.ts";
import type { EngineHealth } from "./engine-health.ts";
import type { ConnectorOutput } from "./hooks.ts";
import type { Jobs } from "./jobs.ts";
import type { Loads } from "./loads.ts";
import type { Lookups } from "./lookups.ts";
import type { ConnectorCounters, SchedulerPorts } from "./ports.ts";
import type { Saves } from "./saves.ts";

/**
 * How announced jobs end: when every rank has reported, or at their deadline. A report frees the job's record and blocks; a
 * deadline alone does not, unless nobody has started the job, because an engine may still use the blocks.
 */
export class JobEnds {
  readonly #ports: Pick<SchedulerPorts, "log" | "nowMs">;
  readonly #health: EngineHealth;
  readonly #jobs: Jobs;
  readonly #loads: Loads;
  readonly #lookups: Lookups;
  readonly #saves: Saves;
  readonly #deadlines: Deadlines;
  readonly #counters: ConnectorCounters;

  constructor(
    ports: Pick<SchedulerPorts, "log" | "nowMs">,
    parts: {
      health: EngineHealth;
      jobs: Jobs;
      loads: Loads;
      lookups: Lookups;
      saves: Saves;
      deadlines: Deadlines;
      counters: ConnectorCounters;
    },
  ) {
    this.#ports = ports;
    this.#health = parts.health;
    this.#jobs = parts.jobs;
    this.#loads = parts.loads;
    this.#lookups = parts.lookups;
    this.#saves = parts.saves;
    this.#deadlines = parts.deadlines;
    this.#counters = parts.counters;
  }

  /** See SchedulerHooks.applyOutput. */
  applyOutput(output: ConnectorOutput): void {
    for (let index = 0; index < output.doneLoadCount; index++) this.#loadDone(output, index);
    for (let index = 0; index < output.doneSaveCount; index++) {
      const job = output.doneSaves[index]!;
      if (!this.#known(job)) {
        output.doneSaves[index] = NONE;
        continue;
      }
      this.#deadlines.delete(job);
      this.#saves.ended(job, output.saveOutcomes[index]!);
      this.#jobs.release(job);
    }
  }

  nextDeadlineMs(): number {
    return this.#deadlines.nextMs();
  }

  /** See SchedulerHooks.expire. */
  expire(visit: (slot: number, loadLost: boolean) => void): void {
    const now = this.#ports.nowMs();
    for (;;) {
      const job = this.#deadlines.takeDue(now);
      if (job === NONE) return;
      const slot = this.#jobs.slot(job);
      if (this.#jobs.isSave(job)) this.#saves.expired(job);
      else if (this.#loads.expired(job)) {
        this.#lookups.loadFailed(slot, OUTCOME_TIMEOUT);
        this.#saves.loadFailed(slot);
        visit(slot, true);
      }
    }
  }

  #loadDone(output: ConnectorOutput, index: number): void {
    const job = output.doneLoads[index]!;
    if (!this.#known(job)) {
      output.doneLoads[index] = NONE;
      output.badChunks[index] = NONE;
      return;
    }
    this.#deadlines.delete(job);
    const slot = this.#jobs.slot(job);
    const bad = output.badChunks[index]!;
    const outcome = this.#loads.outcome(job, output.loadOutcomes[index]!);
    // An overdue load that brought everything all the same is a success.
    const succeeded = bad === NONE && output.loadOutcomes[index] === OUTCOME_HIT;
    this.#health.loadEnded(succeeded, outcome, this.#ports.nowMs());
    if (slot !== NONE) {
      output.badChunks[index] = this.#loads.ended(job, slot, outcome, bad, succeeded);
      output.loadOutcomes[index] = succeeded ? OUTCOME_HIT : outcome;
      if (!succeeded) {
        this.#lookups.loadFailed(slot, outcome);
        this.#saves.loadFailed(slot);
      }
    }
    this.#jobs.release(job);
  }

  #known(job: number): boolean {
    if (this.#jobs.live(job)) return true;
    this.#counters.staleMessages++;
    this.#ports.log.debug({ job }, "a report about a job that is not there is dropped");
    return false;
  }
}
