import { flag, refuseUnknownKeys } from "../config/kv-checks.ts";
import { fail, MooncakeKvError } from "../errors.ts";
import { decodeBatch } from "./decode-batch.ts";
import type { DecodedBatch } from "./decode-batch.ts";
import { bindSocket, connectSocket } from "./endpoints.ts";
import { requestReplay } from "./replay-request.ts";
import { SequenceTracker, sequenceOf } from "./sequence.ts";
import { loadZeromq } from "./zeromq.ts";
import type { SubscriberSocket, Zeromq } from "./zeromq.ts";

export interface SubscriberOptions {
  /** The publisher's address: one subscriber follows one publisher, whose sequence numbers it counts. */
  readonly endpoint: string;
  /** Bind instead of connect: for publishers that connect to a collector. */
  readonly bind?: boolean;
  /** Only batches whose topic begins so. Default: all. */
  readonly topic?: string;
  /** Where missed batches can be asked for; absent: they are lost. */
  readonly replayEndpoint?: string;
  /** Longest wait for the next batch of a replay. Default 1000. */
  readonly replayTimeoutMs?: number;
  /** The first batch that matters: 0 asks for what was published before. Default: whatever comes first. */
  readonly firstSequence?: number;
  /** Messages that are held while the reader is busy, before some are lost. Default 100000. */
  readonly highWaterMark?: number;
  readonly load?: () => Promise<Zeromq>;
}

const OPTION_KEYS: readonly string[] = [
  "endpoint",
  "bind",
  "topic",
  "replayEndpoint",
  "replayTimeoutMs",
  "firstSequence",
  "highWaterMark",
  "load",
] satisfies (keyof SubscriberOptions)[];

export type KvEventMessage =
  | {
      readonly kind: "batch";
      readonly sequence: number;
      readonly batch: DecodedBatch;
      /** It had been missed, and came on demand. */
      readonly replayed: boolean;
    }
  /** Batches [from, to) cannot be had: what is known of the publisher's blocks has holes from here on. */
  | { readonly kind: "lost"; readonly from: number; readonly to: number }
  /** The publisher began anew: nothing that is known of its blocks holds. */
  | { readonly kind: "restart" }
  /** A message that is no batch; `sequence` null: not even a number. */
  | { readonly kind: "invalid"; readonly sequence: number | null; readonly error: MooncakeKvError };

/**
 * Follows one publisher of KV events, of any vLLM version or of this project: `for await (const message of subscriber)`. Gaps are
 * healed by a replay where the publisher has one, in order, before the batch that showed them.
 */
export class KvEventSubscriber implements AsyncIterable<KvEventMessage> {
  /** With the port that was chosen, when it binds. */
  readonly endpoint: string;
  readonly #zeromq: Zeromq;
  readonly #options: SubscriberOptions;
  readonly #socket: SubscriberSocket;
  readonly #tracker: SequenceTracker;

  private constructor(
    zeromq: Zeromq,
    options: SubscriberOptions,
    socket: SubscriberSocket,
    endpoint: string,
  ) {
    this.#zeromq = zeromq;
    this.#options = options;
    this.#socket = socket;
    this.endpoint = endpoint;
    this.#tracker = new SequenceTracker(options.firstSequence ?? null);
  }

  /**
   * Throws OPTIONAL_MISSING without the package zeromq, INVALID_VALUE for an address that cannot be used, and MISSING, INVALID_TYPE or
   * INVALID_VALUE for options of another shape.
   */
  static async open(options: SubscriberOptions): Promise<KvEventSubscriber> {
    checkOptions(options);
    const zeromq = await loadZeromq(options.load);
    const receiveHighWaterMark = options.highWaterMark ?? 100_000;
    const socket = new zeromq.Subscriber({ receiveHighWaterMark, linger: 0 });
    try {
      socket.subscribe(options.topic ?? "");
      let { endpoint } = options;
      if (options.bind === true) {
        await bindSocket("endpoint", socket, endpoint, () => "127.0.0.1");
        endpoint = socket.lastEndpoint ?? endpoint;
      } else connectSocket("endpoint", socket, endpoint);
      return new KvEventSubscriber(zeromq, options, socket, endpoint);
    } catch (error) {
      socket.close();
      throw error;
    }
  }

  /** Ends the iteration. */
  close(): void {
    this.#socket.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<KvEventMessage> {
    for await (const frames of this.#socket) {
      const [, sequenceFrame, payload] = frames;
      const sequence = sequenceFrame === undefined ? null : sequenceOf(sequenceFrame);
      if (sequence === null || payload === undefined) {
        yield { kind: "invalid", sequence: null, error: noBatch(frames.length) };
        continue;
      }
      const arrival = this.#tracker.arrived(sequence);
      if (arrival.kind === "restart") {
        yield { kind: "restart" };
        yield* this.#heal(0, sequence);
      } else if (arrival.kind === "gap") yield* this.#heal(arrival.from, arrival.to);
      yield readMessage(sequence, payload, false);
    }
  }

  /** What a replay gives of batches [from, to), and `lost` for the rest. */
  async *#heal(from: number, to: number): AsyncGenerator<KvEventMessage> {
    let next = from;
    const { replayEndpoint, replayTimeoutMs = 1000 } = this.#options;
    if (replayEndpoint !== undefined && from < to) {
      const replay = requestReplay(this.#zeromq, replayEndpoint, from, replayTimeoutMs);
      for await (const { sequence, payload } of replay) {
        if (sequence < next) continue;
        if (sequence >= to) break;
        if (sequence > next) yield { kind: "lost", from: next, to: sequence };
        next = sequence + 1;
        yield readMessage(sequence, payload, true);
        if (next === to) break;
      }
    }
    if (next < to) yield { kind: "lost", from: next, to };
  }
}

/** Waits and queues of a subscriber stay bounded, whatever is asked for. */
const COUNT_MAX = 1 << 24;

function checkOptions(options: SubscriberOptions): void {
  const given: unknown = options;
  if (typeof given !== "object" || given === null || Array.isArray(given)) {
    const remedy = 'Give for example { endpoint: "tcp://127.0.0.1:5557" }.';
    fail("INVALID_TYPE", "options", given, "must be an object", remedy);
  }
  refuseUnknownKeys(given, OPTION_KEYS, "options.");
  const { endpoint, bind, topic, replayEndpoint, load } = options;
  const remedy = 'Give a ZeroMQ address, such as "tcp://127.0.0.1:5557".';
  if (endpoint === undefined) fail("MISSING", "endpoint", endpoint, "must be an address", remedy);
  for (const [field, value] of Object.entries({ endpoint, replayEndpoint, topic })) {
    if (value === undefined || (typeof value === "string" && (value !== "" || field === "topic")))
      continue;
    fail(
      "INVALID_TYPE",
      field,
      value,
      "must be a text",
      field === "topic" ? "Give a text." : remedy,
    );
  }
  if (bind !== undefined) flag(bind, "bind");
  if (load !== undefined && typeof load !== "function")
    fail("INVALID_TYPE", "load", load, "must be a function", "Leave it out.");
  const { replayTimeoutMs, firstSequence, highWaterMark } = options;
  const most = { replayTimeoutMs: COUNT_MAX, highWaterMark: COUNT_MAX, firstSequence: 2 ** 53 - 1 };
  for (const [field, value] of Object.entries({ replayTimeoutMs, firstSequence, highWaterMark })) {
    const bound = most[field as keyof typeof most];
    if (value === undefined || (Number.isInteger(value) && value >= 0 && value <= bound)) continue;
    const problem = `must be a whole number from 0 to ${bound}`;
    fail("INVALID_VALUE", field, value, problem, "Correct the number, or leave it out.");
  }
}

function readMessage(sequence: number, payload: Uint8Array, replayed: boolean): KvEventMessage {
  try {
    return { kind: "batch", sequence, batch: decodeBatch(payload), replayed };
  } catch (error) {
    if (error instanceof MooncakeKvError) return { kind: "invalid", sequence, error };
    throw error;
  }
}

function noBatch(frames: number): MooncakeKvError {
  return new MooncakeKvError({
    code: "INVALID_VALUE",
    field: "KV event message",
    value: `${frames} frames`,
    problem: "is not [topic, sequence number, payload]",
    remedy: "Subscribe to a publisher of KV events.",
  });
}
