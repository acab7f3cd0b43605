import { Tables } from "../../blocks/tables.ts";
import type { NativeBinding } from "../../native/binding.ts";
import { Mailbox } from "../mailbox/mailbox.ts";
import { ACTOR_COUNT } from "../messages.ts";
import { CONTROL_GONE_WORD, type RuntimePlan } from "../plan.ts";
import { Outboxes } from "./outboxes.ts";

/** What every thread of a runtime has: its views of the shared tables, its ends of the mailboxes, the common clock. */
export interface ThreadEnds {
  readonly tables: Tables;
  readonly mailboxes: readonly Mailbox[];
  readonly outboxes: Outboxes;
  readonly nowMs: () => number;
  /** The actor was given up. */
  readonly gone: (actor: number) => boolean;
}

/** `producer`: the ACTOR_ number under which this thread sends; no other living thread may use it (see Mailbox). */
export function openThreadEnds(
  plan: RuntimePlan,
  native: NativeBinding,
  producer: number,
): ThreadEnds {
  const mailboxes: Mailbox[] = [];
  for (let actor = 0; actor < ACTOR_COUNT; actor++)
    mailboxes.push(new Mailbox(new Int32Array(plan.mailboxes[actor]!), producer));
  const wakeIds = plan.wakeIds;
  const control = new Int32Array(plan.control);
  // Pairs with the supervisor's Atomics.or when it gives an actor up.
  const gone = (actor: number): boolean =>
    ((Atomics.load(control, CONTROL_GONE_WORD) >>> actor) & 1) === 1;
  const origin = plan.originNanoseconds;
  return {
    tables: new Tables(plan.tables),
    mailboxes,
    // A receiver without an event loop to wake (attached thread in Atomics.wait) is served by the notify.
    outboxes: new Outboxes(
      mailboxes,
      (actor) => {
        if (!native.wake(wakeIds[actor]!)) mailboxes[actor]!.notify();
      },
      gone,
    ),
    gone,
    nowMs: () => (native.monotonicNanoseconds() - origin) / 1e6,
  };
}
