import type { KvEventSource } from "./event-source.ts";
import type { KvEvent } from "./kv-events.ts";

/** Events of one batch: a subscriber gets them in messages of some hundred KiB at most, whatever has piled up. */
const EVENTS_PER_BATCH_MAX = 1024;

/** Where batches go. */
export interface EventSink {
  publish(events: readonly KvEvent[]): boolean;
  lost(): void;
}

/** Carries what actors tell to a publisher. One thread. */
export class KvEventFeed {
  readonly #source: KvEventSource;
  readonly #sink: EventSink;
  /** Events handed over. */
  published = 0;
  /** Events that found a ring or the publisher's queue full. Subscribers see the gap, save that it may be a batch late. */
  lost = 0;
  #seenLost = 0;

  constructor(source: KvEventSource, sink: EventSink) {
    this.#source = source;
    this.#sink = sink;
  }

  /** Publishes what has come since the last call, behind `own` events of the caller; nothing when there are none. */
  pass(own: readonly KvEvent[] = []): void {
    const lost = this.#source.lostEvents();
    if (lost > this.#seenLost) this.#sink.lost();
    this.lost += lost - this.#seenLost;
    this.#seenLost = lost;
    let events = [...own, ...this.#source.take(EVENTS_PER_BATCH_MAX)];
    while (events.length > 0) {
      if (this.#sink.publish(events)) this.published += events.length;
      else this.lost += events.length;
      events = this.#source.take(EVENTS_PER_BATCH_MAX);
    }
  }
}
