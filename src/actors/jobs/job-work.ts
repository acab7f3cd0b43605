import type { LoadDone, Message, SaveDone } from "../messages.ts";
import type { ActorContext } from "../step.ts";

/** What loader and saver do each in their own way. All calls come from `JobRunner.step`. */
export interface JobWork {
  /** Starts the item's plan from the job record; may fail it (`items.fail`) and leave nothing to send. */
  begin(item: number): void;
  /** There are keys to send now. Completions may bring more. */
  hasMore(item: number): boolean;
  /** Nothing will be sent any more. Asked when none of the item's batches is in flight. */
  isDone(item: number): boolean;
  /** No batch may go out before one comes back. `batchesInFlight`: all that this actor has in the engine. */
  holdsBack(batchesInFlight: number): boolean;
  /** Fills `batch` with the item's next keys and submits it; false when there was none left (then nothing is submitted). */
  submitNext(item: number, batch: number, context: ActorContext): boolean;
  /** Takes the results of one of the item's batches. True: the batch was submitted again and stays in flight. */
  completed(item: number, batch: number, context: ActorContext): boolean;
  /** Nothing more is sent for the item. What had not been sent fails with `outcome`; if all was sent, nothing changes. */
  giveUp(item: number, outcome: number): void;
  /** The item's report, from `items`, the job record and its own counts. */
  report(item: number, context: ActorContext): LoadDone | SaveDone;
  /** The item was reported and is in hand no more. May give other items their turn (`JobRunner.wake`). */
  ended(item: number, context: ActorContext): void;
  /** A message that is not about taking a job; true when it was understood. */
  receive(message: Message, context: ActorContext): boolean;
}
