import { JOB_STATE_NEW } from "../../blocks/layout.ts";
import type { EngineChannel } from "../../store/engine.ts";
import { OUTCOME_ENGINE_ERROR } from "../messages.ts";
import type { ActorContext } from "../step.ts";
import type { JobItems } from "./job-items.ts";
import type { JobWork } from "./job-work.ts";

/**
 * What a dead predecessor left: the jobs that it had taken, and its batches that are still in the engine. An inherited job sends
 * nothing more; it is finished, as failed, as soon as the engine touches none of its blocks.
 */
export class InheritedJobs {
  readonly #items: JobItems;
  readonly #work: Pick<JobWork, "begin" | "giveUp">;
  readonly #counters: { adoptedJobs: number; adoptedBatches: number };
  #batches = 0;

  constructor(
    items: JobItems,
    work: Pick<JobWork, "begin" | "giveUp">,
    counters: { adoptedJobs: number; adoptedBatches: number },
  ) {
    this.#items = items;
    this.#work = work;
    this.#counters = counters;
  }

  /** Batches that are still in the engine. */
  get batches(): number {
    return this.#batches;
  }

  /**
   * Takes over from a dead predecessor (none: finds nothing). Jobs that it had taken are answered with ENGINE_ERROR, at once or
   * when the last of its batches is back. Jobs that it had reported are reported again, because the message may have died with
   * it; a receiver drops what it does not wait for. Jobs it never took come by their messages. `finish` is called for those that
   * wait for no batch.
   */
  adopt(engine: EngineChannel, context: ActorContext, finish: (item: number) => void): void {
    const items = this.#items;
    engine.forEachSubmitted((batch) => {
      const item = engine.job(batch);
      items.inFlight[item] = items.inFlight[item]! + 1;
      this.#batches++;
    });
    this.#counters.adoptedBatches = this.#batches;
    items.clearGauges();
    for (let job = 0; job * items.workers < items.count; job++) {
      if (!items.known(job) || items.state(job) === JOB_STATE_NEW) continue;
      items.open(job, context.epoch);
      this.#counters.adoptedJobs++;
      for (let worker = 0; worker < items.workers; worker++) {
        const item = items.item(job, worker);
        this.#adoptItem(item, context);
        if (items.inFlight[item] === 0) finish(item);
      }
    }
  }

  /** One of the item's inherited batches is back. True: it was the last that the item waited for, which is to be finished. */
  completed(item: number): boolean {
    const items = this.#items;
    this.#batches--;
    if (items.active[item] !== 1 || items.orphan[item] !== 1) return false;
    items.inFlight[item] = items.inFlight[item]! - 1;
    return items.inFlight[item] === 0;
  }

  #adoptItem(item: number, context: ActorContext): void {
    const items = this.#items;
    const batches = items.inFlight[item]!;
    items.take(item, context.epoch, context.nowMs());
    items.inFlight[item] = batches;
    items.orphan[item] = 1;
    this.#work.begin(item);
    this.#work.giveUp(item, OUTCOME_ENGINE_ERROR);
    items.fail(item, OUTCOME_ENGINE_ERROR);
  }
}
