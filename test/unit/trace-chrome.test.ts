/**
 * Goal: an exported file is valid Chrome trace JSON that viewers nest correctly, whatever was recorded or lost.
 * Method: a checker of the format's rules (phases, pairing by category and id, nesting of complete events, metadata) runs
 * over hand-made stories, random event soups, slow streams and failing ones.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ChromeTraceWriter, createChromeTraceFile } from "../../src/trace/chrome.ts";
import type { ChromeTraceOptions } from "../../src/trace/chrome.ts";
import type { ChromeEvent } from "../../src/trace/chrome-events.ts";
import type { CollectedRecord } from "../../src/trace/collector.ts";
import { TRACE_EVENTS } from "../../src/trace/events.ts";
import type { TraceEventName } from "../../src/trace/events.ts";
import { TRACE_LANES } from "../../src/trace/lanes.ts";

const OPTIONS: ChromeTraceOptions = { processName: "test" };

class Memory extends Writable {
  text = "";
  writes = 0;
  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.text += chunk.toString("utf8");
    this.writes++;
    done();
  }
}

function record(
  microseconds: number,
  lane: number,
  name: TraceEventName,
  more: Partial<CollectedRecord> = {},
): CollectedRecord {
  const event = TRACE_EVENTS[name].number;
  return {
    lane,
    event,
    slot: 4,
    generation: 2,
    first: 0,
    second: 0,
    microseconds,
    epoch: 1,
    ...more,
  };
}

/** Parses a trace and holds it against the rules of the format. */
function check(text: string): ChromeEvent[] {
  const { traceEvents: events } = JSON.parse(text) as { traceEvents: ChromeEvent[] };
  const named = new Set(
    events.filter((event) => event.name === "thread_name").map((event) => event.tid),
  );
  const open = new Map<string, ChromeEvent>();
  for (const event of events) {
    const where = JSON.stringify(event);
    expect("beXiCM", where).toContain(event.ph);
    expect(event.pid, where).toBe(1);
    if (event.ph === "M") continue;
    expect(event.ts, where).toBeGreaterThanOrEqual(0);
    if (event.ph === "C") {
      for (const value of Object.values(event.args ?? {}))
        expect(value, where).toBeTypeOf("number");
      continue;
    }
    expect(named.has(event.tid), where).toBe(true);
    expect(event.cat, where).toBeTruthy();
    if (event.ph === "i") expect(event.s, where).toBe("t");
    if (event.ph === "b" || event.ph === "e") {
      const key = `${event.cat}/${event.id}`;
      const begin = open.get(key);
      if (event.ph === "b") {
        expect(begin, `overlap: ${where}`).toBeUndefined();
        open.set(key, event);
      } else {
        expect(begin?.name, `end without begin: ${where}`).toBe(event.name);
        expect(event.ts, where).toBeGreaterThanOrEqual(begin?.ts ?? Infinity);
        open.delete(key);
      }
    }
  }
  expect([...open.values()], "begins without end").toEqual([]);
  for (const tid of named)
    checkNesting(events.filter((event) => event.ph === "X" && event.tid === tid));
  return events;
}

function checkNesting(slices: ChromeEvent[]): void {
  const sorted = slices
    .map((event) => ({ start: event.ts ?? -1, end: (event.ts ?? -1) + (event.dur ?? -1) }))
    .toSorted((left, right) => left.start - right.start || right.end - left.end);
  const stack: number[] = [];
  for (const { start, end } of sorted) {
    expect(end).toBeGreaterThanOrEqual(start);
    while (stack.length > 0 && (stack.at(-1) ?? 0) <= start) stack.pop();
    if (stack.length > 0) expect(end).toBeLessThanOrEqual(stack.at(-1) ?? 0);
    stack.push(end);
  }
}

async function written(batch: readonly CollectedRecord[], options: ChromeTraceOptions = OPTIONS) {
  const memory = new Memory();
  const writer = new ChromeTraceWriter(memory, options);
  writer.records(batch);
  const summary = await writer.close();
  const events = check(memory.text);
  return { events, summary, of: (name: string) => events.filter((event) => event.name === name) };
}

describe("Chrome trace", () => {
  it("is valid and names process and lanes when nothing was recorded", async () => {
    const { events, summary } = await written([]);
    expect(
      events.filter((event) => event.name === "thread_name").map((event) => event.args?.["name"]),
    ).toEqual([...TRACE_LANES]);
    expect(events.find((event) => event.name === "process_name")?.args).toEqual({ name: "test" });
    expect(summary).toEqual({ events: events.length, dropped: 0, unfinished: 0 });
  });

  it("tells a request's story: id is the request, arguments have their names, text id attached", async () => {
    const { of, summary } = await written(
      [
        record(10, 0, "requestAdded", { first: 100, second: 116 }),
        record(11, 0, "requestParked", { first: 2 }),
        record(12, 0, "lookupSubmitted", { first: 96, second: 1 }),
        record(20, 0, "requestResumed", { first: 2 }),
        record(21, 0, "lookupAnswered", { first: 2, second: 96 }),
        record(40, 0, "firstToken", { first: 0, second: 96 }),
        record(50, 0, "requestFinished", { first: 1, second: 16 }),
      ],
      { ...OPTIONS, requestId: (slot, generation) => `request-${slot}-${generation}` },
    );
    const request = { slot: 4, generation: 2, request: "request-4-2", actorEpoch: 1 };
    expect(of("request")).toMatchObject([
      {
        ph: "b",
        ts: 10,
        tid: 1,
        id: "4.2",
        args: { ...request, promptTokens: 100, tokensMax: 116 },
      },
      { ph: "e", ts: 50, id: "4.2", args: { ...request, reason: 1, outputTokens: 16 } },
    ]);
    expect(of("parked")).toMatchObject([{ ph: "b", args: { why: "lookup" } }, { ph: "e" }]);
    expect(of("lookup")).toMatchObject([
      { ph: "b", ts: 12 },
      { ph: "e", ts: 21, args: { outcome: "HIT", hitTokens: 96 } },
    ]);
    expect(of("first token")).toMatchObject([{ ph: "i", ts: 40, args: { poolTokens: 96 } }]);
    expect(summary.unfinished).toBe(0);
  });

  it("pairs overlapping batches of a request by batch, and saves oldest first", async () => {
    const { of } = await written([
      record(1, 2, "getSubmitted", { first: 8, second: 30 }),
      record(2, 2, "getSubmitted", { first: 9, second: 31 }),
      record(3, 2, "getDone", { first: 31, second: 0 }),
      record(9, 2, "getDone", { first: 30, second: 0 }),
      record(10, 3, "saveBegin", { first: 5, second: 1 }),
      record(11, 3, "saveBegin", { first: 6, second: 1 }),
      record(12, 3, "saveEnd", { first: 2, second: 1 }),
      record(13, 3, "saveEnd", { first: 2, second: 1 }),
    ]);
    const spans = (name: string) =>
      of(name)
        .filter((event) => event.ph === "b")
        .map((begin) => [
          begin.ts,
          of(name).find((end) => end.ph === "e" && end.id === begin.id)?.ts,
        ]);
    expect(spans("get batch")).toEqual([
      [1, 9],
      [2, 3],
    ]);
    expect(spans("save")).toEqual([
      [10, 12],
      [11, 13],
    ]);
  });

  it("draws what an actor does alone as nested slices of its thread", async () => {
    const step = { slot: -1, generation: -1 };
    const { of } = await written([
      record(10, 4, "modelBegin", { ...step, first: 1, second: 3 }),
      record(30, 4, "modelEnd", { ...step, first: 1, second: 99 }),
    ]);
    expect(of("model")).toMatchObject([
      { ph: "X", ts: 10, dur: 20, tid: 5, args: { step: 1, sequences: 3, tokens: 99 } },
    ]);
  });

  it("marks what never ended, what was begun anew by a successor, and ends without begins", async () => {
    const { of, summary } = await written([
      record(10, 2, "loadBegin", { first: 7, second: 3 }),
      record(20, 2, "loadBegin", { first: 7, second: 3, epoch: 2 }),
      record(25, 0, "requestFinished"),
      record(30, 0, "requestParked", { first: 1 }),
      record(40, 0, "slotReleased"),
    ]);
    expect(of("load")).toMatchObject([
      { ph: "b", ts: 10 },
      { ph: "e", ts: 20, args: { unfinished: true } },
      { ph: "b", ts: 20 },
      { ph: "e", ts: 40, args: { unfinished: true } },
    ]);
    expect(of("request")).toMatchObject([{ ph: "i", ts: 25, args: { beginMissing: true } }]);
    expect(of("parked").at(-1)).toMatchObject({ ph: "e", ts: 40, args: { unfinished: true } });
    expect(summary.unfinished).toBe(3);
  });

  it("shows lost events and given counters as counters", async () => {
    const memory = new Memory();
    const writer = new ChromeTraceWriter(memory, OPTIONS);
    writer.lost({ lane: 1, more: 3, total: 3, microseconds: 5 });
    writer.lost({ lane: 2, more: 1, total: 1, microseconds: 6 });
    writer.counter("blocks", 7, { pinned: 2 });
    await writer.close();
    const events = check(memory.text).filter((event) => event.ph === "C");
    expect(events.map((event) => [event.name, event.args])).toEqual([
      ["lost trace events", { lookup: 3 }],
      ["lost trace events", { lookup: 3, loader: 1 }],
      ["blocks", { pinned: 2 }],
    ]);
  });

  it("stays valid for any soup of events, also with few slices allowed", async () => {
    const names = Object.keys(TRACE_EVENTS) as TraceEventName[];
    const one = fc.record({
      name: fc.constantFrom(...names),
      lane: fc.nat(6),
      slot: fc.integer({ min: -1, max: 2 }),
      first: fc.nat(3),
      second: fc.nat(3),
      epoch: fc.integer({ min: 1, max: 2 }),
      wait: fc.nat(2),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(one, { maxLength: 120 }),
        fc.constantFrom(1, 5, 1000),
        async (soup, openSlicesMax) => {
          let time = 0;
          const batch = soup.map(({ name, wait, ...more }) =>
            record((time += wait), more.lane, name, more),
          );
          const { summary } = await written(batch, { ...OPTIONS, openSlicesMax });
          if (openSlicesMax === 1000) expect(summary.dropped).toBe(0);
        },
      ),
      { numRuns: 200 },
    );
  });

  it("bounds what waits for a stalled stream, counts what it drops, and keeps every pair whole", async () => {
    let stalled: (() => void) | undefined;
    let text = "";
    const slow = new Writable({
      highWaterMark: 1024,
      write(chunk: Buffer, _encoding, done) {
        text += chunk.toString("utf8");
        if (stalled === undefined) stalled = done;
        else done();
      },
    });
    const writer = new ChromeTraceWriter(slow, { ...OPTIONS, pendingCharactersMax: 200_000 });
    const half = 3000;
    for (let index = 0; index < half; index++)
      writer.records([record(index, 0, "requestAdded", { slot: index })]);
    for (let index = 0; index < half; index++) {
      writer.records([record(half + index, 0, "requestFinished", { slot: index })]);
    }
    const closed = writer.close();
    stalled?.();
    const summary = await closed;
    const events = check(text);
    const ends = events.filter((event) => event.ph === "e");
    expect(ends.length).toBeGreaterThan(100);
    expect(events.filter((event) => event.ph === "b")).toHaveLength(ends.length);
    expect(summary.unfinished).toBe(0);
    expect(summary.dropped).toBe(2 * (half - ends.length));
    expect(events.filter((event) => event.name === "dropped trace events")).toMatchObject([
      { ph: "C", args: { file: summary.dropped } },
    ]);
    // The ends of slices in the file are let through above the bound: at most one for each begin.
    expect(text.length).toBeLessThan(2 * 200_000 + 3 * 65_536);
  });

  it("writes a file, and streams it in pieces while it records", async () => {
    const folder = mkdtempSync(join(tmpdir(), "trace-chrome-"));
    try {
      const path = join(folder, "trace.json");
      const writer = createChromeTraceFile(path, OPTIONS);
      for (let index = 0; index < 5000; index++)
        writer.records([record(index, 0, "firstToken", { first: index })]);
      const summary = await writer.close();
      const events = check(readFileSync(path, "utf8"));
      expect(events).toHaveLength(summary.events);
      expect(events.filter((event) => event.name === "first token")).toHaveLength(5000);
      await expect(writer.close()).rejects.toThrow(/closed already/);
      writer.records([record(1, 0, "firstToken")]);
    } finally {
      rmSync(folder, { recursive: true });
    }
    const memory = new Memory();
    const writer = new ChromeTraceWriter(memory, OPTIONS);
    for (let index = 0; index < 2000; index++) writer.records([record(index, 0, "firstToken")]);
    expect(memory.writes).toBeGreaterThan(1);
    await writer.close();
    check(memory.text);
  });

  it("reports an unusable path and a stream that ends early, and drops what comes after", async () => {
    const writer = createChromeTraceFile(
      join(tmpdir(), "no", "such", "folder", "trace.json"),
      OPTIONS,
    );
    await expect(writer.close()).rejects.toMatchObject({ code: "ENOENT" });
    expect(writer.failure).toMatchObject({ code: "ENOENT" });

    const broken = new Writable({
      write: (_chunk, _encoding, done) => done(new Error("disk full")),
    });
    const failing = new ChromeTraceWriter(broken, OPTIONS);
    for (let index = 0; index < 2000; index++) failing.records([record(index, 0, "firstToken")]);
    await new Promise(setImmediate);
    expect(failing.failure?.message).toBe("disk full");
    failing.records([record(1, 0, "firstToken")]);
    await expect(failing.close()).rejects.toThrow("disk full");

    const memory = new Memory();
    const cut = new ChromeTraceWriter(memory, OPTIONS);
    memory.destroy();
    await expect(cut.close()).rejects.toThrow();
  });
});
