import type { Mailbox } from "../actors/mailbox/mailbox.ts";
import type { Message } from "../actors/messages.ts";

/** Messages in one turn of the event loop, so that sockets get their chance under load. */
const MESSAGES_PER_TURN_MAX = 1024;
/** Turns that look at once for a record that is claimed and not published yet; after that, how soon to look again. */
const UNPUBLISHED_TURNS_MAX = 32;
const UNPUBLISHED_POLL_MS = 1;

export interface MailboxReaderOptions {
  readonly mailbox: Mailbox;
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
  #unpublishedTurns = 0;

  constructor(options: MailboxReaderOptions) {
    this.#options = options;
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
    const { mailbox, take, taken } = this.#options;
    mailbox.disarm();
    for (let count = 0; count < MESSAGES_PER_TURN_MAX; count++) {
      const message = mailbox.pop();
      if (message !== null) {
        this.#unpublishedTurns = 0;
        take(message);
        continue;
      }
      taken();
      if (mailbox.arm()) return;
      if (!mailbox.readable()) return this.#lookAgain();
    }
    taken();
    this.#immediate = setImmediate(this.wake);
  }

  /** Claimed and not published: its producer goes on soon, or is dead and the supervisor is about to say so. */
  #lookAgain(): void {
    if (this.#unpublishedTurns++ < UNPUBLISHED_TURNS_MAX) this.#immediate = setImmediate(this.wake);
    else this.#timer = setTimeout(this.wake, UNPUBLISHED_POLL_MS);
  }
}
