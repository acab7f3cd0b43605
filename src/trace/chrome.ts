import { createWriteStream } from "node:fs";
import type { Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { MooncakeKvError } from "../errors.ts";
import type { CollectedRecord, LostEvents, TraceSubscriber } from "./collector.ts";
import {
  asyncEvent,
  completeEvent,
  counterEvent,
  instantEvent,
  metadataEvents,
  recordArguments,
} from "./chrome-events.ts";
import type { ChromeEvent, RequestIdOf } from "./chrome-events.ts";
import { laneName, TRACE_LANES } from "./lanes.ts";
import { describeTraceEvent, OpenSlices } from "./slices.ts";
import type { OpenSlice } from "./slices.ts";

export interface ChromeTraceOptions {
  readonly processName: string;
  /** Lanes that get a named thread; all actors when left out. */
  readonly lanes?: readonly number[];
  readonly requestId?: RequestIdOf;
  /** Text that may wait for a slow disk, in characters (nearly all are one byte); more is dropped. 8 Mi when left out. */
  readonly pendingCharactersMax?: number;
  /** Slices that may be open at a time; further ones are dropped and counted. 65536 when left out. */
  readonly openSlicesMax?: number;
  /** Called once, when the stream fails. */
  readonly onFailure?: (error: Error) => void;
}

export interface ChromeTraceSummary {
  readonly events: number;
  /** Records that are not in the file, because the disk was too slow or too many slices were open. */
  readonly dropped: number;
  /** Slices that had no end when the file was closed, or whose end was never recorded. */
  readonly unfinished: number;
}

const CHUNK_CHARACTERS = 65536;

/**
 * Writes a trace as Chrome trace JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.
 *
 * Slices are asynchronous events ("b"/"e"), because requests, saves and batches overlap on a lane and viewers would take
 * overlapping "B"/"E" for broken nesting; only what an actor does alone (model, hash) is a complete event ("X") on its
 * thread. Subscribe it to the collector; one thread. Nothing waits: text queues up to a bound while the stream is busy,
 * beyond that records are dropped, but ends of slices that are in the file are always written, so that pairs stay whole.
 */
export class ChromeTraceWriter implements TraceSubscriber {
  readonly #stream: Writable;
  readonly #requestId: RequestIdOf | undefined;
  readonly #pendingCharactersMax: number;
  readonly #slices: OpenSlices;
  readonly #lostByLane: Record<string, number> = {};
  #text: string;
  #first = true;
  #closed = false;
  #failure: Error | undefined;
  #newestMicroseconds = 0;
  #events = 0;
  #dropped = 0;
  #unfinished = 0;

  /** The stream belongs to the writer from now on: `close` ends it. */
  constructor(stream: Writable, options: ChromeTraceOptions) {
    this.#stream = stream;
    this.#requestId = options.requestId;
    this.#pendingCharactersMax = options.pendingCharactersMax ?? 8 * 2 ** 20;
    this.#slices = new OpenSlices(options.openSlicesMax ?? 65536);
    stream.on("error", (error: Error) => {
      this.#text = "";
      if (this.#failure !== undefined) return;
      this.#failure = error;
      options.onFailure?.(error);
    });
    this.#text = '{"displayTimeUnit":"ms","traceEvents":[\n';
    for (const event of metadataEvents(
      options.processName,
      options.lanes ?? [...TRACE_LANES.keys()],
    ))
      this.#put(event);
  }

  /** Why the stream failed, if it did; then records are dropped and `close` rejects. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  records(batch: readonly CollectedRecord[]): void {
    if (this.#closed) return;
    for (const record of batch) this.#record(record);
  }

  lost(lost: LostEvents): void {
    this.#lostByLane[laneName(lost.lane)] = lost.total;
    this.counter("lost trace events", lost.microseconds, this.#lostByLane);
  }

  /** A point of one or more curves that are drawn under `name`. */
  counter(name: string, microseconds: number, values: Readonly<Record<string, number>>): void {
    if (this.#closed) return;
    if (this.#busy()) this.#dropped++;
    else this.#put(counterEvent(name, microseconds, { ...values }));
  }

  /**
   * Ends open slices as unfinished, completes the JSON and ends the stream. Resolves when all is written; rejects with the
   * stream's error. May be called once.
   */
  async close(): Promise<ChromeTraceSummary> {
    if (this.#closed) {
      throw new MooncakeKvError({
        code: "CLOSED",
        field: "Chrome trace",
        problem: "is closed already",
        remedy: "Close it once.",
      });
    }
    for (const slice of this.#slices.takeAll())
      this.#endUnfinished(slice, this.#newestMicroseconds);
    if (this.#dropped > 0) {
      this.#put(
        counterEvent("dropped trace events", this.#newestMicroseconds, { file: this.#dropped }),
      );
    }
    this.#closed = true;
    this.#text += "\n]}\n";
    if (this.#failure !== undefined) throw this.#failure;
    this.#stream.end(this.#text);
    this.#text = "";
    await finished(this.#stream, { readable: false });
    return { events: this.#events, dropped: this.#dropped, unfinished: this.#unfinished };
  }

  #record(record: CollectedRecord): void {
    this.#newestMicroseconds = Math.max(this.#newestMicroseconds, record.microseconds);
    const description = describeTraceEvent(record.event);
    if (description === undefined) {
      this.#dropped++;
      return;
    }
    const args = recordArguments(record, description, this.#requestId);
    const slice = description.phase === "end" ? this.#slices.end(record, description) : undefined;
    if (slice !== undefined) {
      this.#end(slice, Math.max(record.microseconds, slice.begin.microseconds), args);
    } else if (this.#busy() || (description.phase === "begin" && this.#slices.full)) {
      this.#dropped++;
    } else if (description.phase === "begin") {
      const { slice: begun, replaced } = this.#slices.begin(record, description);
      for (const older of replaced) this.#endUnfinished(older, record.microseconds);
      if (!OpenSlices.aloneOnLane(description))
        this.#put(asyncEvent("b", begun, record.microseconds, args));
    } else {
      // An end without its begin is shown where it was recorded, so that it is not overlooked.
      if (description.phase === "end") args["beginMissing"] = true;
      this.#put(instantEvent(record, description, args));
    }
  }

  #end(
    slice: OpenSlice,
    microseconds: number,
    args: Record<string, string | number | boolean>,
  ): void {
    if (OpenSlices.aloneOnLane(slice.description)) {
      const begun = recordArguments(slice.begin, slice.description, this.#requestId);
      this.#put(completeEvent(slice, microseconds, { ...begun, ...args }));
    } else this.#put(asyncEvent("e", slice, microseconds, args));
  }

  #endUnfinished(slice: OpenSlice, microseconds: number): void {
    this.#unfinished++;
    this.#end(slice, Math.max(microseconds, slice.begin.microseconds), { unfinished: true });
  }

  #busy(): boolean {
    return (
      this.#failure !== undefined ||
      this.#text.length + this.#stream.writableLength > this.#pendingCharactersMax
    );
  }

  #put(event: ChromeEvent): void {
    if (this.#failure !== undefined) return;
    this.#text += (this.#first ? "" : ",\n") + JSON.stringify(event);
    this.#first = false;
    this.#events++;
    // While the stream wants a pause, text waits here; the next record after the pause sends it.
    if (this.#text.length >= CHUNK_CHARACTERS && !this.#stream.writableNeedDrain) {
      this.#stream.write(this.#text);
      this.#text = "";
    }
  }
}

/** Opens a file for `ChromeTraceWriter`; an unusable path is reported by `failure` and by `close`. */
export function createChromeTraceFile(
  path: string,
  options: ChromeTraceOptions,
): ChromeTraceWriter {
  return new ChromeTraceWriter(createWriteStream(path), options);
}
