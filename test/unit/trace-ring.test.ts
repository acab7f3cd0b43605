/**
 * Goal: a ring hands over every record whole and in order, drops new ones when it is full and counts them exactly.
 * Method: against a model in one thread over all fill levels and position wraps; a worker thread that writes as fast as it
 * can while this thread drains, where every record carries a check sum; a successor with the next epoch.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { describe, expect, it } from "vitest";
import { loadNative } from "../../src/native/load.ts";
import { TRACE_EVENTS } from "../../src/trace/events.ts";
import { createTraceRing, RingTraceWriter, TraceRingReader } from "../../src/trace/ring.ts";
import type { TraceRecord } from "../../src/trace/ring.ts";
import { workerEntry } from "../../src/worker-entry.ts";

function drained(reader: TraceRingReader): TraceRecord[] {
  const records: TraceRecord[] = [];
  reader.drain((record) => records.push({ ...record }));
  return records;
}

describe("trace ring", () => {
  it("gives back all words of a record, also times beyond 32 bits and negative arguments", () => {
    const ring = createTraceRing(4);
    const time = 3 * 2 ** 32 + 2 ** 31 + 5;
    new RingTraceWriter(ring, 7, () => time + 0.75).record("loadFailed", 3, -2, -1, 2 ** 31 - 1);
    expect(drained(new TraceRingReader(ring))).toEqual([
      {
        event: TRACE_EVENTS.loadFailed.number,
        slot: 3,
        generation: -2,
        first: -1,
        second: 2 ** 31 - 1,
        microseconds: time,
        epoch: 7,
      },
    ]);
  });

  it("keeps the oldest records, drops new ones and counts each loss, over many laps", () => {
    const ring = createTraceRing(8);
    const writer = new RingTraceWriter(ring, 1, () => 0);
    const reader = new TraceRingReader(ring);
    let written = 0;
    let lost = 0;
    for (let round = 0; round < 200; round++) {
      const burst = round % 13;
      for (let index = 0; index < burst; index++)
        writer.record("firstToken", 0, 0, written + index, 0);
      const kept = Math.min(burst, 8);
      expect(drained(reader).map((record) => record.first)).toEqual(
        Array.from({ length: kept }, (_, index) => written + index),
      );
      written += burst;
      lost += burst - kept;
      expect(reader.lost()).toBe(lost);
    }
  });

  it("goes on when positions and the count of losses wrap at 32 bits", () => {
    const ring = createTraceRing(4);
    const words = new Int32Array(ring);
    // Tail, head and losses just below the wrap: words 0, 16 and 1.
    words[0] = words[16] = -2;
    words[1] = -1;
    const reader = new TraceRingReader(ring);
    const before = reader.lost();
    const writer = new RingTraceWriter(ring, 1, () => 0);
    for (let index = 0; index < 6; index++) writer.record("firstToken", 0, 0, index, 0);
    expect(drained(reader).map((record) => record.first)).toEqual([0, 1, 2, 3]);
    expect(reader.lost() - before).toBe(2);
  });

  it("a successor goes on with what its predecessor left, under its own epoch", () => {
    const ring = createTraceRing(4);
    const reader = new TraceRingReader(ring);
    const dead = new RingTraceWriter(ring, 1, () => 1);
    for (let index = 0; index < 5; index++) dead.record("firstToken", 0, 0, index, 0);
    expect(drained(reader)).toHaveLength(4);
    dead.record("firstToken", 0, 0, 9, 0);
    new RingTraceWriter(ring, 2, () => 2).record("actorStarted", -1, -1, 0, 2);
    expect(drained(reader).map((record) => [record.epoch, record.first])).toEqual([
      [1, 9],
      [2, 0],
    ]);
    expect(reader.lost()).toBe(1);
  });

  it("counts a record as taken when the visitor throws, and goes on after it", () => {
    const ring = createTraceRing(4);
    const writer = new RingTraceWriter(ring, 1, () => 0);
    const reader = new TraceRingReader(ring);
    for (let index = 0; index < 3; index++) writer.record("firstToken", 0, 0, index, 0);
    expect(() =>
      reader.drain((record) => {
        if (record.first === 1) throw new Error("visitor");
      }),
    ).toThrow("visitor");
    expect(drained(reader).map((record) => record.first)).toEqual([2]);
  });

  it("refuses sizes that are no power of two, by name and value", () => {
    expect(() => createTraceRing(3)).toThrow(/trace ring records.*got 3.*4096/);
  });

  it("hands over whole records in order from another thread, and accounts for every one", async () => {
    const ring = createTraceRing(64);
    const total = 300_000;
    const { monotonicNanoseconds } = loadNative();
    const origin = monotonicNanoseconds();
    const worker = new Worker(
      `const { workerData, parentPort } = require("node:worker_threads");
       Promise.all([import(workerData.ringUrl), import(workerData.nativeUrl)]).then(([{ RingTraceWriter }, { loadNative }]) => {
         const { monotonicNanoseconds } = loadNative();
         const now = () => (monotonicNanoseconds() - workerData.origin) / 1000;
         const writer = new RingTraceWriter(workerData.ring, 5, now);
         for (let index = 0; index < workerData.total; index++)
           writer.record("putDone", index, index ^ 0x55555555, index * 3 | 0, ~index);
         parentPort.postMessage("done");
       });`,
      {
        eval: true,
        workerData: {
          ring,
          total,
          origin,
          ringUrl: workerEntry("trace/ring.js").href,
          nativeUrl: workerEntry("native/load.js").href,
        },
      },
    );
    let over = false;
    const exited = once(worker, "exit");
    worker.once("message", () => (over = true));
    const reader = new TraceRingReader(ring);
    const now = (): number => (monotonicNanoseconds() - origin) / 1000;
    let taken = 0;
    let last = -1;
    let wrong = 0;
    let lastTime = 0;
    const check = (record: Readonly<TraceRecord>): void => {
      const index = record.slot;
      const whole =
        index > last &&
        record.generation === (index ^ 0x55555555) &&
        record.first === ((index * 3) | 0) &&
        record.second === ~index &&
        record.epoch === 5 &&
        record.microseconds >= lastTime;
      if (!whole) wrong++;
      last = index;
      lastTime = record.microseconds;
      taken++;
    };
    while (!over) {
      reader.drain(check);
      await new Promise(setImmediate);
    }
    await exited;
    reader.drain(check);
    expect(wrong).toBe(0);
    expect(taken).toBeGreaterThanOrEqual(64);
    expect(taken + reader.lost()).toBe(total);
    // Both threads measure from the same origin, by the clock of the addon.
    expect(lastTime).toBeLessThan(now() + 1000);
  });
});
