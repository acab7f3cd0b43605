import type { Mailbox } from "../../actors/mailbox/mailbox.ts";
import type { Message } from "../../actors/messages.ts";

/**
 * The attached thread's mailbox, read only when the connector is called. While a call blocks for one answer, other messages
 * are set aside here and handled by the next call: sides are never entered twice.
 */
export class Inbox {
  readonly #mailbox: Mailbox;
  readonly #deaths: () => number;
  readonly #aside: Message[] = [];
  #deathsSeen: number;

  /** `deaths`: actor threads that have died so far. One of them may have left a hole in the mailbox. */
  constructor(mailbox: Mailbox, deaths: () => number) {
    this.#mailbox = mailbox;
    this.#deaths = deaths;
    this.#deathsSeen = deaths();
  }

  next(): Message | null {
    return this.#aside.shift() ?? this.#pop();
  }

  /** Sets aside what has come and sleeps until more comes, at most `timeoutMs`. Needs no event loop. */
  wait(timeoutMs: number): void {
    const before = this.#aside.length;
    for (let message = this.#pop(); message !== null; message = this.#pop())
      this.#aside.push(message);
    if (this.#aside.length === before) this.#mailbox.wait(timeoutMs);
  }

  #pop(): Message | null {
    const message = this.#mailbox.pop();
    if (message !== null || this.#deaths() === this.#deathsSeen) return message;
    // A producer that died between claiming and publishing a record would stop the queue.
    this.#deathsSeen = this.#deaths();
    while (this.#mailbox.skipHole()) {
      const behind = this.#mailbox.pop();
      if (behind !== null) return behind;
    }
    return null;
  }
}
