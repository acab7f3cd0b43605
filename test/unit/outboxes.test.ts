/**
 * Goal: a sender that dies at whatever point between its message and its wake leaves no receiver asleep over what it published.
 * Method: one receiver sleeps; a sender dies at each of its atomic operations in turn, and at the wake itself; then the
 * supervisor tidies up and another sender sends, as a successor does.
 */
import { expect, test } from "vitest";
import { Outboxes } from "../../src/actors/hosts/outboxes.ts";
import { Mailbox, mailboxWords } from "../../src/actors/mailbox/mailbox.ts";
import {
  ACTOR_COUNT,
  ACTOR_MODEL,
  ACTOR_SCHEDULER,
  ACTOR_SUPERVISOR,
} from "../../src/actors/messages.ts";
import { Death, diesBefore } from "./atomic-death.ts";

const RECEIVER = ACTOR_MODEL;
const DYING = ACTOR_SCHEDULER;

/** Three senders' ends of the same mailboxes; what is read when the receiver is woken. */
class World {
  readonly read: number[] = [];
  /** The next wake is the dying sender's last deed, and does not happen. */
  dieAtWake = false;
  readonly #buffers = Array.from({ length: ACTOR_COUNT }, () => {
    const words = new Int32Array(new SharedArrayBuffer(mailboxWords(8) * 4));
    Mailbox.initialise(words);
    return words;
  });
  #woken = false;
  readonly #inbox = new Mailbox(this.#buffers[RECEIVER]!, RECEIVER);

  constructor() {
    this.#inbox.arm();
  }

  sender(producer: number): Outboxes {
    return new Outboxes(
      this.#buffers.map((words) => new Mailbox(words, producer)),
      (actor) => {
        if (this.dieAtWake) throw new Death();
        if (actor === RECEIVER) this.#woken = true;
      },
    );
  }

  /** The receiver's turn, if it was woken: as ThreadHost, reads all there is, then sleeps. */
  receive(): void {
    if (!this.#woken) return;
    this.#woken = false;
    this.#inbox.disarm();
    for (let message = this.#inbox.pop(); message !== null; message = this.#inbox.pop())
      if (message.kind === "actorGone") this.read.push(message.actor);
    expect(this.#inbox.arm()).toBe(true);
  }
}

/** True: the sender had more operations than that, so it died. */
function diesAt(at: number): boolean {
  const world = new World();
  const dying = world.sender(DYING);
  const supervisor = world.sender(ACTOR_SUPERVISOR);
  const died = diesBefore(at, () => {
    dying.send(RECEIVER, { kind: "actorGone", actor: 1 });
    dying.flush();
  });
  supervisor.producerDied(DYING);
  world.receive();
  supervisor.send(RECEIVER, { kind: "actorGone", actor: 2 });
  supervisor.flush();
  world.receive();
  // The dying one's message is read or was never published; the other's is read in any case.
  expect([[1, 2], [2]]).toContainEqual(world.read);
  return died;
}

test("at each of its atomic operations", () => {
  let operations = 0;
  while (diesAt(operations)) operations++;
  // The push and the claim of the wake at least.
  expect(operations).toBeGreaterThan(5);
});

test("when it has claimed the wake and not woken yet", () => {
  const world = new World();
  const dying = world.sender(DYING);
  const supervisor = world.sender(ACTOR_SUPERVISOR);
  world.dieAtWake = true;
  dying.send(RECEIVER, { kind: "actorGone", actor: 1 });
  expect(() => dying.flush()).toThrow(Death);
  world.dieAtWake = false;
  supervisor.producerDied(DYING);
  world.receive();
  expect(world.read).toEqual([1]);
});
