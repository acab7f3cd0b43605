import type { Tables } from "../../blocks/tables.ts";
import type { HitRules } from "../../keys/coordinator/hit-rules.ts";
import type { WorkerKeySpace } from "../../store/key-spaces.ts";
import type { TraceEventName } from "../../trace/events.ts";
import type { LoadDone, Message, SaveDone } from "../messages.ts";
import type { Actor, ActorContext, ActorInspection, Inbox, Log } from "../step.ts";
import { JobItems } from "./job-items.ts";
import { JobRunner, type JobCounters } from "./job-runner.ts";
import type { JobWork } from "./job-work.ts";
import type { StoreMetrics } from "./store-metrics.ts";

export interface JobActorOptions {
  readonly tables: Tables;
  /** By worker side (rank) of this process; the `worker` of a message is an index. */
  readonly workers: readonly WorkerKeySpace[];
  /** What a hit needs; tells whether jobs are planned (`uniform` false). */
  readonly rules: HitRules;
  readonly metrics?: StoreMetrics;
}

/** What kind of jobs an actor works off: JOB_KIND_, the word of its gauge in the request table, and its message. */
export interface JobKind {
  readonly kind: number;
  readonly gaugeWord: number;
  readonly message: "load" | "save";
}

/** The frame of loader and saver: jobs in hand, the runner that gives them turns, and the actor's face. */
export abstract class JobActor implements Actor, JobWork {
  abstract readonly counters: object;
  protected readonly items: JobItems;
  protected readonly runner: JobRunner;
  protected readonly metrics: StoreMetrics | undefined;
  readonly #workers: readonly WorkerKeySpace[];
  #context: ActorContext | undefined;

  constructor(options: JobActorOptions, { kind, gaugeWord, message }: JobKind) {
    this.items = new JobItems(options.tables, options.workers.length, kind, gaugeWord);
    this.runner = new JobRunner(this.items, this, message);
    this.metrics = options.metrics;
    this.#workers = options.workers;
  }

  get jobCounters(): JobCounters {
    return this.runner.counters;
  }

  step(inbox: Inbox, tables: Tables, context: ActorContext): number {
    this.#context = context;
    return this.runner.step(inbox, tables, context);
  }

  idle(): boolean {
    return this.runner.idle();
  }

  inspect(nowMs: number): ActorInspection {
    return this.runner.inspect(this.counters, nowMs);
  }

  abstract begin(item: number): void;
  abstract hasMore(item: number): boolean;
  abstract isDone(item: number): boolean;
  abstract submitNext(item: number, batch: number, context: ActorContext): boolean;
  abstract completed(item: number, batch: number, context: ActorContext): boolean;
  abstract giveUp(item: number, outcome: number): void;
  abstract report(item: number, context: ActorContext): LoadDone | SaveDone;

  holdsBack(_batchesInFlight: number): boolean {
    return false;
  }
  ended(_item: number, _context: ActorContext): void {}
  receive(_message: Message, _context: ActorContext): boolean {
    return false;
  }

  /** Whose values an item is about. */
  protected worker(item: number): WorkerKeySpace {
    return this.#workers[this.items.worker(item)]!;
  }

  /** Of the step that runs. */
  protected get log(): Log | undefined {
    return this.#context?.log;
  }

  protected trace(event: TraceEventName, item: number, first: number, second: number): void {
    const { items } = this;
    this.#context?.trace.record(event, items.slot(item), items.generation(item), first, second);
  }
}
