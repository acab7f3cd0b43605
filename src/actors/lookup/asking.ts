import type { ActorContext } from "../step.ts";
import type { HitOrder } from "./key-order.ts";

/** Where lookups get their answers from: the engine (ExistsBatches) or another process (RemoteQuestions). */
export interface Asking {
  readonly hits: HitOrder;
  /** What predecessors asked and nobody wants is not back yet. */
  readonly foreign: number;
  /** Takes over from a predecessor. */
  adopt(context: ActorContext): void;
  /** The record has something to ask for. */
  enqueue(record: number): void;
  /** Asks for records in turn, as long as there is room. */
  pump(context: ActorContext): void;
  /** Takes answers; `settled` may close the record. */
  poll(context: ActorContext, settled: (record: number) => void): void;
}
