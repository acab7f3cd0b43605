import { recordStale } from "../mailbox/stale.ts";
import { widenTime } from "../../blocks/int32-time.ts";
import { JOB_STATE_NEW, NONE } from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import { Deadlines } from "../../blocks/deadlines.ts";
import type { EngineChannel } from "../../store/engine.ts";
import {
  ACTOR_SCHEDULER,
  OUTCOME_CANCELLED,
  OUTCOME_TIMEOUT,
  type Load,
  type Message,
  type Save,
} from "../messages.ts";
import type { ActorContext, ActorInspection, Inbox } from "../step.ts";
import { inspectJobs } from "./inspect.ts";
import { InheritedJobs } from "./inherited-jobs.ts";
import { ItemQueue } from "./item-queue.ts";
import type { JobItems } from "./job-items.ts";
import type { JobWork } from "./job-work.ts";

/** Counted since this incarnation started; plain numbers for metrics. */
export interface JobCounters {
  jobs: number;
  batches: number;
  /** Late, duplicate or unknown messages. */
  staleMessages: number;
  /** Jobs given up at their deadline. */
  deadlines: number;
  /** Jobs and batches of a dead predecessor that were waited for or answered. */
  adoptedJobs: number;
  adoptedBatches: number;
  /** Times that a batch had to wait because the channel had no free slot. */
  channelFull: number;
}

/**
 * The machinery that loader and saver share: takes jobs, gives each in turn one batch, awaits all batches, keeps deadlines, and
 * reports. A job is reported exactly once by an incarnation, and only when the engine touches none of its blocks any more.
 */
export class JobRunner {
  readonly counters: JobCounters = {
    jobs: 0,
    batches: 0,
    staleMessages: 0,
    deadlines: 0,
    adoptedJobs: 0,
    adoptedBatches: 0,
    channelFull: 0,
  };
  readonly #items: JobItems;
  readonly #work: JobWork;
  readonly #message: "load" | "save";
  readonly #queue: ItemQueue;
  readonly #deadlines: Deadlines;
  readonly #inherited: InheritedJobs;
  #ownBatches = 0;
  #started = false;
  #stopping = false;
  #stopMs = Infinity;

  constructor(items: JobItems, work: JobWork, message: "load" | "save") {
    this.#items = items;
    this.#work = work;
    this.#message = message;
    this.#queue = new ItemQueue(items.count);
    this.#deadlines = new Deadlines(items.count);
    this.#inherited = new InheritedJobs(items, work, this.counters);
  }

  step(inbox: Inbox, _tables: Tables, context: ActorContext): number {
    const { engine } = context;
    if (!this.#started) {
      this.#started = true;
      this.#inherited.adopt(engine, context, (item) => this.#finish(item, context));
    }
    for (let batch = engine.poll(); batch >= 0; batch = engine.poll())
      this.#completed(batch, engine, context);
    for (let message = inbox.next(); message !== null; message = inbox.next())
      this.#receive(message, context);
    this.#expire(context);
    this.#pump(engine, context);
    return Math.min(this.#deadlines.nextMs(), this.#stopMs);
  }

  idle(): boolean {
    return this.#items.activeCount === 0 && this.#inherited.batches === 0;
  }

  /** `counters` are the actor's own. */
  inspect(counters: object, nowMs: number): ActorInspection {
    const inFlight = {
      jobsInHand: this.#items.activeCount,
      batchesInFlight: this.#ownBatches,
      batchesOfPredecessors: this.#inherited.batches,
      jobsQueued: this.#queue.size,
    };
    return {
      counters: { ...this.counters, ...counters, ...inFlight },
      inHand: { ...inspectJobs(this.#items, nowMs), stopping: this.#stopping },
    };
  }

  stale(context: ActorContext, message: Message): void {
    this.counters.staleMessages++;
    recordStale(context, message);
  }

  /** Stops sending batches of an active item; it is reported when those in the engine are back. */
  giveUp(item: number, outcome: number, context: ActorContext): void {
    if (this.#items.orphan[item] === 0) this.#work.giveUp(item, outcome);
    this.#deadlines.delete(item);
    this.#finishIfDone(item, context);
  }

  /** Reports a job that was never taken, or that was reported before. */
  refuse(item: number, outcome: number, context: ActorContext): void {
    this.#items.take(item, context.epoch, context.nowMs());
    this.#work.begin(item);
    this.#work.giveUp(item, outcome);
    this.#items.fail(item, outcome);
    this.#finish(item, context);
  }

  #receive(message: Message, context: ActorContext): void {
    if (message.kind === this.#message) this.#take(message, context);
    else if (message.kind === "stop") {
      this.#stopping = true;
      this.#stopMs = widenTime(message.deadlineMs, context.nowMs());
    } else if (message.kind === "actorRestarted" || message.kind === "actorGone") return;
    else if (!this.#work.receive(message, context)) this.stale(context, message);
  }

  #take(message: Load | Save, context: ActorContext): void {
    const { job, ticket, worker } = message;
    const items = this.#items;
    const item = items.item(job, worker);
    const unknown = !items.knownAs(job, ticket) || !(worker >= 0 && worker < items.workers);
    // Reported before, by its message, by a cancel, or as a predecessor's: whoever asks gets or got that report. Taking the
    // job again would touch blocks and a record that may be somebody else's by now.
    const repeated = !unknown && items.state(job) !== JOB_STATE_NEW && items.answered[item] === 1;
    if (unknown || items.active[item] === 1 || repeated) {
      this.stale(context, message);
      return;
    }
    if (this.#stopping) return this.refuse(item, OUTCOME_CANCELLED, context);
    const now = context.nowMs();
    items.take(item, context.epoch, now);
    this.counters.jobs++;
    this.#deadlines.set(item, items.deadlineMs(item, now));
    this.#work.begin(item);
    this.wake(item, context);
  }

  /** The item may have keys to send now, or be done. */
  wake(item: number, context: ActorContext): void {
    if (this.#items.active[item] !== 1 || this.#items.orphan[item] === 1) return;
    // An item may still wait in the queue from a former job that was given up.
    if (this.#work.hasMore(item) && !this.#queue.has(item)) this.#queue.push(item);
    this.#finishIfDone(item, context);
  }

  #completed(batch: number, engine: EngineChannel, context: ActorContext): void {
    const items = this.#items;
    const item = engine.job(batch);
    if (engine.epoch(batch) !== context.epoch) {
      engine.release(batch);
      if (this.#inherited.completed(item)) this.#finish(item, context);
      return;
    }
    if (this.#work.completed(item, batch, context)) {
      this.counters.batches++;
      return;
    }
    engine.release(batch);
    this.#ownBatches--;
    items.inFlight[item] = items.inFlight[item]! - 1;
    this.wake(item, context);
  }

  /** One batch for each job in turn, so that a long job delays no other. */
  #pump(engine: EngineChannel, context: ActorContext): void {
    const items = this.#items;
    while (this.#queue.size > 0) {
      if (this.#work.holdsBack(this.#ownBatches + this.#inherited.batches)) return;
      const batch = engine.acquire();
      if (batch < 0) {
        this.counters.channelFull++;
        return;
      }
      const item = this.#queue.shift();
      const submitted = items.active[item] === 1 && this.#work.submitNext(item, batch, context);
      if (!submitted) engine.release(batch);
      else {
        items.inFlight[item] = items.inFlight[item]! + 1;
        this.#ownBatches++;
        this.counters.batches++;
      }
      if (items.active[item] !== 1) continue;
      if (this.#work.hasMore(item)) this.#queue.push(item);
      else if (!submitted) this.#finishIfDone(item, context);
    }
  }

  #expire(context: ActorContext): void {
    const now = context.nowMs();
    for (let item = this.#deadlines.takeDue(now); item !== NONE;) {
      this.counters.deadlines++;
      this.giveUp(item, OUTCOME_TIMEOUT, context);
      item = this.#deadlines.takeDue(now);
    }
    if (now < this.#stopMs) return;
    this.#stopMs = Infinity;
    for (let item = 0; item < this.#items.count; item++)
      if (this.#items.active[item] === 1) this.giveUp(item, OUTCOME_CANCELLED, context);
  }

  #finishIfDone(item: number, context: ActorContext): void {
    if (this.#items.active[item] !== 1 || this.#items.orphan[item] === 1) return;
    if (this.#items.inFlight[item] === 0 && this.#work.isDone(item)) this.#finish(item, context);
  }

  #finish(item: number, context: ActorContext): void {
    this.#deadlines.delete(item);
    const report = this.#work.report(item, context);
    this.#items.answer(item, context.epoch);
    context.send(ACTOR_SCHEDULER, report);
    this.#work.ended(item, context);
  }
}
