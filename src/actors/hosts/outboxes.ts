import { brokenInvariant } from "../../errors.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { ACTOR_COUNT, ACTOR_NAMES, type Message } from "../messages.ts";

/**
 * One thread's ends of all mailboxes. Sending only publishes the record and notes the receiver; `flush` then wakes each noted
 * receiver that sleeps, once: the wake costs microseconds, the record a fraction of one.
 */
export class Outboxes {
  readonly #mailboxes: readonly Mailbox[];
  readonly #wake: (actor: number) => void;
  readonly #touched = new Uint8Array(ACTOR_COUNT);
  readonly #gone: (actor: number) => boolean;
  #anyTouched = false;

  /**
   * `wake` is called for a receiver whose sleep word this thread has claimed. `gone`: the receiver was given up; what does not
   * fit into its mailbox any more is dropped, because nobody reads it.
   */
  constructor(
    mailboxes: readonly Mailbox[],
    wake: (actor: number) => void,
    gone: (actor: number) => boolean = () => false,
  ) {
    this.#mailboxes = mailboxes;
    this.#wake = wake;
    this.#gone = gone;
  }

  send(actor: number, message: Message): void {
    const mailbox = this.#mailboxes[actor];
    if (mailbox === undefined) return brokenInvariant("message to an unknown actor", actor);
    if (!mailbox.push(message)) {
      if (this.#gone(actor)) return;
      return brokenInvariant(
        `the mailbox of the ${ACTOR_NAMES[actor]} actor is full`,
        message.kind,
      );
    }
    this.#touched[actor] = 1;
    this.#anyTouched = true;
  }

  room(actor: number): number {
    return this.#mailboxes[actor]?.room() ?? 0;
  }

  /**
   * Supervisor, when an actor's thread has ended: frees the mailboxes from what it left half done, and wakes receivers that it
   * may have died just before waking. It may have claimed the wake already, and nobody else would wake the receiver then: so
   * the sleep word is not asked. One wake too many costs a turn; who has read all records needs none.
   */
  producerDied(producer: number): void {
    for (const [actor, mailbox] of this.#mailboxes.entries()) {
      mailbox.producerDied(producer);
      if (mailbox.size() > 0) this.#wake(actor);
    }
  }

  flush(): void {
    if (!this.#anyTouched) return;
    this.#anyTouched = false;
    // Highest number first: the model is woken before loader and saver, whose work may wait for it to start.
    for (let actor = ACTOR_COUNT - 1; actor >= 0; actor--) {
      if (this.#touched[actor] === 0) continue;
      this.#touched[actor] = 0;
      if (this.#mailboxes[actor]!.claimWake()) this.#wake(actor);
    }
  }
}
