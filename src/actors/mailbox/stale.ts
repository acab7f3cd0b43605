import { NONE } from "../../blocks/layout.ts";
import type { TraceWriter } from "../../trace/events.ts";
import type { Message } from "../messages.ts";
import { MESSAGE_KINDS } from "./codec.ts";

/** Where a receiver writes what it drops: an actor's context, or a side's ports. */
export interface StaleSink {
  readonly trace: TraceWriter;
  readonly log: { debug(fields: object, text: string): void };
}

/** A late, duplicate or unknown message is dropped: traced with its kind and logged. The receiver counts it. */
export function recordStale(sink: StaleSink, message: Message): void {
  const slot = "slot" in message ? message.slot : NONE;
  const generation = "generation" in message ? message.generation : NONE;
  sink.trace.record("staleMessage", slot, generation, MESSAGE_KINDS.indexOf(message.kind), 0);
  sink.log.debug({ message }, "a late, duplicate or unknown message is dropped");
}
