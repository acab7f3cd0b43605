import type { Tables } from "../../blocks/tables.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { Message } from "../messages.ts";
import type { Actor, ActorContext, Inbox } from "../step.ts";
import type { Outboxes } from "./outboxes.ts";
import type { StepRecorder } from "./recording/step-recorder.ts";

/** Steps in one turn of the event loop before other callbacks of this thread (timers, life-cycle messages) get a chance. */
const STEPS_PER_TURN_MAX = 32;
/** How soon to look again when a producer has claimed the next record and does not publish it for a whole turn. */
const UNPUBLISHED_POLL_MS = 1;

export interface ThreadHostOptions {
  readonly actor: Actor;
  readonly tables: Tables;
  readonly context: ActorContext;
  readonly mailbox: Mailbox;
  readonly outboxes: Outboxes;
  /** Records every step; see recording/. */
  readonly recorder?: StepRecorder | undefined;
  /** Refreshes the time that `context.nowMs()` returns, once a step. */
  readonly tick: () => number;
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
    const { actor, tables, context, mailbox, outboxes, tick, recorder } = this.#options;
    clearTimeout(this.#timer);
    mailbox.disarm();
    let unpublished = false;
    for (let count = 0; count < STEPS_PER_TURN_MAX; count++) {
      const nowMs = tick();
      const inbox = recorder === undefined ? this : recorder.begin(this, nowMs);
      const deadlineMs = actor.step(inbox, tables, context);
      recorder?.end(deadlineMs);
      outboxes.flush();
      if (this.#stopping && actor.idle()) return this.#finish();
      // Completions that arrive from here on fire the wake handle again; records are seen by `arm`.
      unpublished = false;
      if (deadlineMs <= nowMs) continue;
      if (mailbox.arm()) return this.#sleep(deadlineMs - nowMs);
      unpublished = !mailbox.readable();
    }
    // Claimed and not published: its producer goes on soon, or is dead and the supervisor is about to say so.
    if (unpublished) this.#sleep(UNPUBLISHED_POLL_MS);
    else setImmediate(this.wake);
  }

  #sleep(delayMs: number): void {
    if (delayMs === Infinity) return;
    // Timers count whole milliseconds; one more keeps a deadline from being looked at just before it is due.
    this.#timer = setTimeout(this.wake, Math.min(delayMs + 1, 0x7fffffff));
  }

  #finish(): void {
    this.#stopped = true;
    this.#options.onStopped();
  }
}
