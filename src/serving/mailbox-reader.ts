import type { Mailbox } from "../actors/mailbox/mailbox.ts";
import type { Message } from "../actors/messages.ts";

/** Messages in one turn of the event loop, so that sockets get their chance under load. */
const MESSAGES_PER_TURN_MAX = 1024;
/** How long the head of the mailbox must stay unpublished, after a producer died, before it counts as a hole. */
const HOLE_WAIT_MS = 1000;
const HOLE_POLL_MS = 10;

export interface MailboxReaderOptions {
  readonly mailbox: Mailbox;
  readonly nowMs: () => number;
  readonly deaths: () => number;
  readonly take: (message: Message) => void;
  /** After each batch: sends what `take` has put into outboxes. */
  readonly taken: () => void;
}

/** Empties a mailbox on a thread with an event loop: all that is there at each wake, then sleeps until the next. */
export class MailboxReader {
  readonly #options: MailboxReaderOptions;
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #running = false;
  #closed = false;
  #deathsSeen: number;
  #stuckSinceMs = Infinity;

  constructor(options: MailboxReaderOptions) {
    this.#options = options;
    this.#deathsSeen = options.deaths();
  }

  /** Entry from the wake handle, and once at the start. A call from inside `take` is absorbed by the running turn. */
  readonly wake = (): void => {
    if (this.#running || this.#closed) return;
    this.#running = true;
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
    try {
      this.#turn();
    } finally {
      this.#running = false;
    }
  };

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
  }

  #turn(): void {
    const { mailbox, take, taken, deaths } = this.#options;
    mailbox.disarm();
    for (let count = 0; count < MESSAGES_PER_TURN_MAX; count++) {
      const message = mailbox.pop();
      if (message !== null) {
        take(message);
        continue;
      }
      taken();
      if (mailbox.arm()) {
        this.#deathsSeen = deaths();
        this.#stuckSinceMs = Infinity;
        return;
      }
      if (!mailbox.readable() && !this.#skipHole()) return;
    }
    taken();
    this.#immediate = setImmediate(this.wake);
  }

  /**
   * A record is claimed and not published: its producer is about to publish it, or has died in between. Only after a death and
   * a long wait is it given up. False: look again later, which has been arranged.
   */
  #skipHole(): boolean {
    const { mailbox, deaths, nowMs } = this.#options;
    if (deaths() === this.#deathsSeen) {
      this.#immediate = setImmediate(this.wake);
      return false;
    }
    const now = nowMs();
    if (this.#stuckSinceMs === Infinity) this.#stuckSinceMs = now;
    if (now - this.#stuckSinceMs < HOLE_WAIT_MS) {
      this.#timer = setTimeout(this.wake, HOLE_POLL_MS);
      return false;
    }
    mailbox.skipHole();
    this.#stuckSinceMs = Infinity;
    return true;
  }
}
