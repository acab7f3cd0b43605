import { KvEventFeed } from "../events/event-feed.ts";
import type { KvEventSource } from "../events/event-source.ts";
import type { KvEventPublisher } from "../events/publisher.ts";

/** vLLM sends one batch a scheduling step; here the steps run on another thread, and what they tell is looked for this often. */
const PERIOD_MS = 5;

/** Publishes the KV events of a runtime until it is closed. */
export class KvEventPublishing {
  readonly publisher: KvEventPublisher;
  readonly feed: KvEventFeed;
  readonly #timer: NodeJS.Timeout;

  constructor(source: KvEventSource, publisher: KvEventPublisher) {
    this.publisher = publisher;
    this.feed = new KvEventFeed(source, publisher);
    this.#timer = setInterval(() => this.feed.pass(), PERIOD_MS);
    this.#timer.unref();
  }

  /** Call when the actors have ended: publishes their last events. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.feed.pass();
    await this.publisher.close();
  }
}
