import { isBound } from "../config/kv-events-config.ts";
import type { KvEventsConfig } from "../config/kv-events-config.ts";
import { KvEventEncoder } from "./encode-batch.ts";
import { bindSocket, connectSocket, endpointOfRank } from "./endpoints.ts";
import type { KvEvent, KvEventBatch } from "./kv-events.ts";
import { ReplayBuffer } from "./replay-buffer.ts";
import { serveReplays } from "./replay-service.ts";
import type { ReplayCounters } from "./replay-service.ts";
import { sequenceBytes } from "./sequence.ts";
import { loadZeromq } from "./zeromq.ts";
import type { PublisherSocket, RouterSocket, Zeromq } from "./zeromq.ts";

export interface EventsLog {
  info(fields: object, text: string): void;
  warn(fields: object, text: string): void;
}

export interface PublisherOptions {
  readonly config: KvEventsConfig;
  readonly dataParallelRank: number;
  /** Stands in for the wildcard of "tcp://*:0"; asked only for that. */
  readonly hostAddress: () => string;
  /** Milliseconds since 1970. */
  readonly wallClockMs: () => number;
  readonly log: EventsLog;
  readonly load?: () => Promise<Zeromq>;
}

export interface PublisherCounters {
  readonly replay: Readonly<ReplayCounters>;
  batches: number;
  events: number;
  bytes: number;
  /** Batches that found the queue full. Each takes its sequence number with it, so that every subscriber sees a gap. */
  droppedBatches: number;
  failedSends: number;
}

interface Waiting {
  readonly sequence: number;
  readonly batch: KvEventBatch;
}

/** Time that waiting batches have to go out when the publisher is closed. */
const CLOSE_TIMEOUT_MS = 1000;
/** What the last messages have to reach subscribers after that. */
const LINGER_MS = 200;
/** Batches that are sent before other work of the thread gets its turn. */
const BATCHES_PER_TURN = 64;

/**
 * Sends batches of KV events to whoever listens, as vLLM's ZmqEventPublisher: PUB messages [topic, sequence number from 0, payload],
 * the last `buffer_steps` of them again on demand. `publish` never waits: a batch that finds the queue full is dropped and counted
 * (vLLM blocks its scheduler there). One thread.
 */
export class KvEventPublisher {
  readonly counters: PublisherCounters = {
    replay: { requests: 0, batches: 0, invalidRequests: 0 },
    batches: 0,
    events: 0,
    bytes: 0,
    droppedBatches: 0,
    failedSends: 0,
  };
  /** Where it listens or sends to, with the port that was chosen. */
  readonly endpoint: string;
  readonly replayEndpoint: string | null;
  readonly #options: PublisherOptions;
  readonly #socket: PublisherSocket;
  readonly #router: RouterSocket | null;
  readonly #buffer: ReplayBuffer;
  readonly #encoder = new KvEventEncoder();
  readonly #topic: Uint8Array;
  /** Oldest first from `#head` on. */
  #queue: Waiting[] = [];
  #head = 0;
  #nextSequence = 0;
  #sending: Promise<void> | null = null;
  #closed = false;
  #replays: Promise<void> | null = null;

  private constructor(
    options: PublisherOptions,
    sockets: { readonly publisher: PublisherSocket; readonly router: RouterSocket | null },
    endpoints: { readonly endpoint: string; readonly replayEndpoint: string | null },
  ) {
    this.#options = options;
    this.#socket = sockets.publisher;
    this.#router = sockets.router;
    this.endpoint = endpoints.endpoint;
    this.replayEndpoint = endpoints.replayEndpoint;
    this.#buffer = new ReplayBuffer(options.config.bufferSteps);
    this.#topic = new TextEncoder().encode(options.config.topic);
  }

  /**
   * Opens the sockets. Throws OPTIONAL_MISSING without the package zeromq, INVALID_VALUE for addresses that cannot be used (in use
   * by others, not of this machine); nothing stays open then.
   */
  static async open(options: PublisherOptions): Promise<KvEventPublisher> {
    const { config, dataParallelRank: rank } = options;
    const endpoint = endpointOfRank(config.endpoint, rank);
    const replayEndpoint =
      config.replayEndpoint === null ? null : endpointOfRank(config.replayEndpoint, rank);
    const { Publisher, Router } = await loadZeromq(options.load);
    const publisher = new Publisher({ sendHighWaterMark: config.highWaterMark, linger: LINGER_MS });
    // A full replay with its end fits: ZeroMQ learns of a message's reading only every half of the mark.
    const router =
      replayEndpoint === null
        ? null
        : new Router({ sendHighWaterMark: 2 * (config.bufferSteps + 1), linger: 0 });
    try {
      const open = async (
        field: string,
        socket: PublisherSocket | RouterSocket,
        address: string,
      ): Promise<string> => {
        if (socket === router || config.bind || isBound(address))
          return await bindSocket(field, socket, address, options.hostAddress);
        connectSocket(field, publisher, address);
        return address;
      };
      const bound = await open("endpoint", publisher, endpoint);
      const replayBound =
        router === null || replayEndpoint === null
          ? null
          : await open("replay_endpoint", router, replayEndpoint);
      const opened = new KvEventPublisher(
        options,
        { publisher, router },
        { endpoint: bound, replayEndpoint: replayBound },
      );
      opened.#start(config.bind || isBound(endpoint));
      return opened;
    } catch (error) {
      publisher.close();
      router?.close();
      throw error;
    }
  }

  /** Queues a batch with the time of now. False: dropped, because the queue is full or the publisher is closed. */
  publish(events: readonly KvEvent[]): boolean {
    const { config, dataParallelRank, wallClockMs } = this.#options;
    const sequence = this.#nextSequence++;
    if (this.#closed || this.waitingBatches >= config.queueBatchesMax) {
      this.counters.droppedBatches++;
      return false;
    }
    const timestampSeconds = wallClockMs() / 1000;
    this.#queue.push({ sequence, batch: { timestampSeconds, events, dataParallelRank } });
    this.#sending ??= this.#sendAll();
    return true;
  }

  /** Events were lost before they came here: the next batch leaves a number out, so that every subscriber sees a gap. */
  lost(): void {
    this.#nextSequence++;
  }

  get waitingBatches(): number {
    return this.#queue.length - this.#head;
  }

  /** Sends what waits, for a second at most, and closes. May be called again. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#sending !== null) await Promise.race([this.#sending, delay(CLOSE_TIMEOUT_MS)]);
    this.#queue = [];
    this.#head = 0;
    this.#socket.close();
    this.#router?.close();
    await this.#replays;
  }

  #start(bound: boolean): void {
    const { log } = this.#options;
    const { endpoint, replayEndpoint } = this;
    const replay = { replayEndpoint, replayBoundAddress: this.#router?.lastEndpoint ?? null };
    if (bound)
      log.info(
        { endpoint, boundAddress: this.#socket.lastEndpoint, ...replay },
        "KV events are published",
      );
    else
      log.info(
        { endpoint, boundAddress: null, ...replay },
        "KV events are sent to the collector that is bound at this address, once there is one",
      );
    if (this.#router === null) return;
    this.#replays = serveReplays(
      this.#router,
      this.#buffer,
      this.#topic,
      this.counters.replay,
    ).catch((error: unknown) => {
      if (!this.#closed) log.warn({ error }, "replays of KV events are not served any more");
    });
  }

  async #sendAll(): Promise<void> {
    // The caller goes on first: encoding is not part of its step.
    await Promise.resolve();
    for (let sent = 1; this.#head < this.#queue.length; sent++) {
      if (sent % BATCHES_PER_TURN === 0) await new Promise(setImmediate);
      const waiting = this.#queue[this.#head++];
      if (waiting !== undefined) await this.#send(waiting);
      if (this.#head < 1024 && this.#head < this.#queue.length) continue;
      this.#queue = this.#queue.slice(this.#head);
      this.#head = 0;
    }
    this.#sending = null;
  }

  async #send({ sequence, batch }: Waiting): Promise<void> {
    try {
      const payload = this.#encoder.encode(batch);
      // Kept before it is sent: a failed send is a gap that a replay heals.
      this.#buffer.add(sequence, payload);
      await this.#socket.send([this.#topic, sequenceBytes(sequence), payload]);
      this.counters.batches++;
      this.counters.events += batch.events.length;
      this.counters.bytes += payload.length;
    } catch (error) {
      this.counters.failedSends++;
      if (!this.#closed)
        this.#options.log.warn({ error, sequence }, "a batch of KV events was not sent");
    }
  }
}

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds).unref();
  });
}
