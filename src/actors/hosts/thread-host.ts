import type { Tables } from "../../blocks/tables.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { Message } from "../messages.ts";
import type { Actor, ActorContext, Inbox } from "../step.ts";
import type { Outboxes } from "./outboxes.ts";

/** Steps in one turn of the event loop before other callbacks of this thread (timers, life-cycle messages) get a chance. */
const STEPS_PER_TURN_MAX = 32;
/** How long the head of a mailbox must stay unpublished, after some producer died, before it counts as a hole. */
const HOLE_WAIT_MS = 1000;

export interface ThreadHostOptions {
  readonly actor: Actor;
  readonly tables: Tables;
  readonly context: ActorContext;
  readonly mailbox: Mailbox;
  readonly outboxes: Outboxes;
  /** Refreshes the time that `context.nowMs()` returns, once a step. */
  readonly tick: () => number;
  /** Deaths of producers so far (a word that the supervisor counts up). */
  readonly deaths: () => number;
  /** Called once after `stop` when the actor is idle. */
  readonly onStopped: () => void;
}

/**
 * Runs one actor on the event loop of a worker thread: step, wake receivers, sleep until a wake or a deadline.
 *
 * The addon's wake handle calls `wake()`; it fires for mailbox records (claimed by the producer) and for engine completions.
 */
export class ThreadHost implements Inbox {
  readonly #options: ThreadHostOptions;
  #timer: NodeJS.Timeout | undefined;
  #running = false;
  #stopping = false;
  #failing = false;
  #stopped = false;
  #deathsSeen = 0;
  #stuckSinceMs = Infinity;

  constructor(options: ThreadHostOptions) {
    this.#options = options;
  }

  next(): Message | null {
    const message = this.#options.mailbox.pop();
    if (message?.kind === "stop") this.#stopping = true;
    if (message !== null && this.#failing) throw new Error("the actor was told to fail");
    return message;
  }

  /** Entry from the wake handle, from timers and from the start. Re-entrant calls are absorbed by the running turn. */
  readonly wake = (): void => {
    if (this.#running || this.#stopped) return;
    this.#running = true;
    try {
      this.#turn();
    } finally {
      this.#running = false;
    }
  };

  /** Test seam: the next step that takes a message loses it and throws, as a broken invariant would. */
  failNextStep(): void {
    this.#failing = true;
  }

  #turn(): void {
    const { actor, tables, context, mailbox, outboxes, tick, deaths } = this.#options;
    clearTimeout(this.#timer);
    mailbox.disarm();
    for (let count = 0; count < STEPS_PER_TURN_MAX; count++) {
      const nowMs = tick();
      const deadlineMs = actor.step(this, tables, context);
      outboxes.flush();
      if (this.#stopping && actor.idle()) return this.#finish();
      // Completions that arrive from here on fire the wake handle again; records are seen by `arm`.
      if (deadlineMs <= nowMs) continue;
      if (mailbox.arm()) {
        this.#deathsSeen = deaths();
        this.#stuckSinceMs = Infinity;
        return this.#sleep(deadlineMs - nowMs);
      }
      if (this.#stuckOnHole(nowMs)) return this.#sleep(Math.min(deadlineMs - nowMs, HOLE_WAIT_MS));
    }
    setImmediate(this.wake);
  }

  #sleep(delayMs: number): void {
    if (delayMs === Infinity) return;
    // Timers count whole milliseconds; one more keeps a deadline from being looked at just before it is due.
    this.#timer = setTimeout(this.wake, Math.min(delayMs + 1, 0x7fffffff));
  }

  /**
   * A producer that died between claiming and publishing a record leaves a hole. `arm` saw claimed records, but the step took
   * none: either a live producer is about to publish, or it is a hole; only after a death and a long wait is it skipped.
   */
  #stuckOnHole(nowMs: number): boolean {
    const { mailbox, deaths } = this.#options;
    if (mailbox.readable() || deaths() === this.#deathsSeen) return false;
    if (this.#stuckSinceMs === Infinity) this.#stuckSinceMs = nowMs;
    if (nowMs - this.#stuckSinceMs < HOLE_WAIT_MS) return true;
    mailbox.skipHole();
    this.#stuckSinceMs = Infinity;
    this.#deathsSeen = deaths();
    return false;
  }

  #finish(): void {
    this.#stopped = true;
    this.#options.onStopped();
  }
}
