import type { Mailbox } from "../../actors/mailbox/mailbox.ts";
import type { Message } from "../../actors/messages.ts";

/**
 * The attached thread's mailbox, read only when the connector is called. While a call blocks for one answer, other messages
 * are set aside here and handled by the next call: sides are never entered twice.
 */
export class Inbox {
  readonly #mailbox: Mailbox;
  readonly #aside: Message[] = [];

  constructor(mailbox: Mailbox) {
    this.#mailbox = mailbox;
  }

  next(): Message | null {
    return this.#aside.shift() ?? this.#mailbox.pop();
  }

  /** Sets aside what has come and sleeps until more comes, at most `timeoutMs`. Needs no event loop. */
  wait(timeoutMs: number): void {
    const before = this.#aside.length;
    for (let message = this.#mailbox.pop(); message !== null; message = this.#mailbox.pop())
      this.#aside.push(message);
    if (this.#aside.length === before) this.#mailbox.wait(timeoutMs);
  }
}
