/**
 * Goal: the collector merges rings by time, keeps the newest records, reports losses once, and survives subscribers.
 * Method: rings written through real writers with a clock under the test's control.
 */
import { expect, it } from "vitest";
import { CounterBlock, COUNTERS, createCounterBuffer } from "../../src/trace/counters.ts";
import { TraceCollector } from "../../src/trace/collector.ts";
import type { CollectedRecord, LostEvents } from "../../src/trace/collector.ts";
import { createTraceRing, RingTraceWriter } from "../../src/trace/ring.ts";

function setUp(windowRecords: number, ringRecords = 8) {
  let time = 0;
  const rings = [0, 2].map((lane) => ({ lane, ring: createTraceRing(ringRecords) }));
  const [scheduler, loader] = rings.map(({ ring }) => new RingTraceWriter(ring, 1, () => time));
  if (scheduler === undefined || loader === undefined) throw new Error("no ring");
  const counters = new CounterBlock(createCounterBuffer(1), 0);
  const errors: unknown[] = [];
  const onSubscriberError = (error: unknown): void => void errors.push(error);
  const collector = new TraceCollector({ rings, windowRecords, counters, onSubscriberError });
  const at = (now: number): void => void (time = now);
  return { collector, scheduler, loader, counters, errors, at };
}

it("orders a batch by time over rings and names the lane", () => {
  const { collector, scheduler, loader, at } = setUp(16);
  const batches: (readonly CollectedRecord[])[] = [];
  collector.subscribe({ records: (batch) => batches.push(batch) });
  for (const [now, writer] of [
    [10, scheduler],
    [20, loader],
    [30, scheduler],
    [30, loader],
  ] as const) {
    at(now);
    writer.record("firstToken", 1, 1, now, 0);
  }
  expect(collector.drain()).toBe(4);
  expect(collector.drain()).toBe(0);
  expect(batches).toHaveLength(1);
  expect(batches[0]?.map((record) => [record.lane, record.microseconds])).toEqual([
    [0, 10],
    [2, 20],
    [0, 30],
    [2, 30],
  ]);
});

it("keeps only the newest records in its window", () => {
  const { collector, scheduler, at } = setUp(5);
  for (let index = 0; index < 12; index++) {
    at(index);
    scheduler.record("firstToken", 0, 0, index, 0);
    collector.drain();
  }
  expect(collector.window().map((record) => record.first)).toEqual([7, 8, 9, 10, 11]);
});

it("reports losses by lane, once each, and counts them", () => {
  const { collector, scheduler, loader, counters, at } = setUp(0, 4);
  const reports: LostEvents[] = [];
  collector.subscribe({ records: () => undefined, lost: (lost) => reports.push(lost) });
  at(50);
  for (let index = 0; index < 6; index++) loader.record("firstToken", 0, 0, index, 0);
  scheduler.record("firstToken", 0, 0, 0, 0);
  collector.drain();
  collector.drain();
  for (let index = 0; index < 5; index++) loader.record("firstToken", 0, 0, index, 0);
  collector.drain();
  expect(reports).toEqual([
    { lane: 2, more: 2, total: 2, microseconds: 50 },
    { lane: 2, more: 1, total: 3, microseconds: 50 },
  ]);
  expect(counters.value(COUNTERS.traceLostEvents + 2)).toBe(3);
  expect(collector.lost()).toBe(3);
  expect(collector.window()).toEqual([]);
});

it("takes a failing subscriber off, tells the owner, and feeds the others", () => {
  const { collector, scheduler, errors } = setUp(4);
  let fed = 0;
  let failing = 0;
  collector.subscribe({
    records: () => {
      failing++;
      throw new Error("subscriber");
    },
  });
  const stop = collector.subscribe({ records: (batch) => void (fed += batch.length) });
  for (let index = 0; index < 3; index++) {
    scheduler.record("firstToken", 0, 0, index, 0);
    if (index === 2) stop();
    collector.drain();
  }
  expect(failing).toBe(1);
  expect(errors).toEqual([new Error("subscriber")]);
  expect(fed).toBe(2);
});
