import { EventEmitter } from "eventemitter3";
import { COUNTERS, type CounterBlock } from "./counters.ts";
import { TraceRingReader } from "./ring.ts";
import type { TraceRecord } from "./ring.ts";

/** One recorded event with its lane. Owned by nobody: subscribers may keep it, none changes it. */
export interface CollectedRecord extends Readonly<TraceRecord> {
  /** ACTOR_ number of the recording actor. */
  readonly lane: number;
}

/** Events that a ring has dropped. */
export interface LostEvents {
  readonly lane: number;
  /** Since the last report, and since the ring was made. */
  readonly more: number;
  readonly total: number;
  /** When it was noticed: the newest time that the collector has seen. */
  readonly microseconds: number;
}

export interface TraceSubscriber {
  /** Records of one drain, ordered by time. They reach back before the last batch by at most one drain period. */
  records(batch: readonly CollectedRecord[]): void;
  lost?(lost: LostEvents): void;
}

export interface TraceCollectorOptions {
  readonly rings: readonly { readonly lane: number; readonly ring: SharedArrayBuffer }[];
  /** Newest records that are kept for subscribers that come later and for dumps. */
  readonly windowRecords: number;
  /** The collecting thread's block: gets `traceLostEvents` of each lane. */
  readonly counters?: CounterBlock;
  /** A subscriber threw: it is taken off and the others go on. */
  readonly onSubscriberError: (error: unknown) => void;
}

interface Lane {
  readonly lane: number;
  readonly reader: TraceRingReader;
  lostReported: number;
}

interface CollectorEvents {
  records: [batch: readonly CollectedRecord[]];
  lost: [lost: LostEvents];
}

/**
 * Drains all trace rings of a process and feeds subscribers. One thread: the owner's, which calls `drain` often enough that
 * no ring fills in between (some tens of milliseconds). There is one collector for a set of rings.
 */
export class TraceCollector {
  readonly #lanes: readonly Lane[];
  readonly #options: TraceCollectorOptions;
  readonly #emitter = new EventEmitter<CollectorEvents>();
  readonly #window: CollectedRecord[] = [];
  #windowNext = 0;
  #newestMicroseconds = 0;

  constructor(options: TraceCollectorOptions) {
    this.#options = options;
    this.#lanes = options.rings.map(({ lane, ring }) => ({
      lane,
      reader: new TraceRingReader(ring),
      lostReported: 0,
    }));
  }

  /** Returns the function that ends the subscription. */
  subscribe(subscriber: TraceSubscriber): () => void {
    const stop = (): void => {
      this.#emitter.off("records", records);
      this.#emitter.off("lost", lost);
    };
    const guarded = (call: () => void): void => {
      try {
        call();
      } catch (error) {
        stop();
        this.#options.onSubscriberError(error);
      }
    };
    const records = (batch: readonly CollectedRecord[]): void =>
      guarded(() => subscriber.records(batch));
    const lost = (event: LostEvents): void => guarded(() => subscriber.lost?.(event));
    this.#emitter.on("records", records);
    this.#emitter.on("lost", lost);
    return stop;
  }

  /** Takes what is in the rings (at most what they hold) and hands it on. Returns the number of records. */
  drain(): number {
    const batch: CollectedRecord[] = [];
    for (const { lane, reader } of this.#lanes)
      reader.drain((record) => batch.push({ lane, ...record }));
    // The sort is stable: records of one lane stay in the order in which they were recorded.
    batch.sort((left, right) => left.microseconds - right.microseconds);
    const newest = batch.at(-1);
    if (newest !== undefined)
      this.#newestMicroseconds = Math.max(this.#newestMicroseconds, newest.microseconds);
    for (const record of batch) this.#keep(record);
    if (batch.length > 0) this.#emitter.emit("records", batch);
    for (const lane of this.#lanes) this.#reportLost(lane);
    return batch.length;
  }

  /** The newest records, oldest first. */
  window(): CollectedRecord[] {
    return [...this.#window.slice(this.#windowNext), ...this.#window.slice(0, this.#windowNext)];
  }

  /** Events that all rings have dropped. */
  lost(): number {
    return this.#lanes.reduce((total, { reader }) => total + reader.lost(), 0);
  }

  #keep(record: CollectedRecord): void {
    const { windowRecords } = this.#options;
    if (windowRecords === 0) return;
    if (this.#window.length < windowRecords) this.#window.push(record);
    else {
      this.#window[this.#windowNext] = record;
      this.#windowNext = (this.#windowNext + 1) % windowRecords;
    }
  }

  #reportLost(lane: Lane): void {
    const total = lane.reader.lost();
    const more = total - lane.lostReported;
    if (more === 0) return;
    lane.lostReported = total;
    this.#options.counters?.add(COUNTERS.traceLostEvents + lane.lane, more);
    this.#emitter.emit("lost", {
      lane: lane.lane,
      more,
      total,
      microseconds: this.#newestMicroseconds,
    });
  }
}
