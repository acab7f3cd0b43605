/**
 * Goal: a dropped message is traced with its own kind and with the request that it names, and logged.
 * Method: a ring and a log that keep what they get; messages with and without a request.
 */
import { expect, test } from "vitest";
import { MESSAGE_KINDS } from "../../src/actors/mailbox/codec.ts";
import { recordStale } from "../../src/actors/mailbox/stale.ts";
import { NONE } from "../../src/blocks/layout.ts";
import { TRACE_EVENTS } from "../../src/trace/events.ts";
import { createTraceRing, RingTraceWriter, TraceRingReader } from "../../src/trace/ring.ts";

test("kind, slot and generation are kept", () => {
  const ring = createTraceRing(8);
  const logged: object[] = [];
  const sink = {
    trace: new RingTraceWriter(ring, 1, () => 0),
    log: { debug: (fields: object) => void logged.push(fields) },
  };
  const lookupDone = { kind: "lookupDone", slot: 3, generation: 7, attempt: 1 } as const;
  const stop = { kind: "stop", deadlineMs: 5 } as const;
  recordStale(sink, lookupDone);
  recordStale(sink, stop);
  const found: unknown[] = [];
  new TraceRingReader(ring).drain(({ event, slot, generation, first }) => {
    found.push([event, slot, generation, first]);
  });
  const { number } = TRACE_EVENTS.staleMessage;
  expect(found).toEqual([
    [number, 3, 7, MESSAGE_KINDS.indexOf("lookupDone")],
    [number, NONE, NONE, MESSAGE_KINDS.indexOf("stop")],
  ]);
  expect(logged).toEqual([{ message: lookupDone }, { message: stop }]);
});
