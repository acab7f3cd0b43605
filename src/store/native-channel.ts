import {
  ACTOR_BATCH_TAKEN,
  BATCH_COUNT,
  BATCH_ENGINE_MICROSECONDS,
  BATCH_EPOCH,
  BATCH_JOB,
  BATCH_KEY_SPACE,
  BATCH_OPERATION,
  BATCH_QUEUE_MICROSECONDS,
  BATCH_STATE_DONE,
  BATCH_STATE_FILLING,
  BATCH_STATE_FREE,
  BATCH_STATE_SUBMITTED,
  BATCH_STATE_WORD,
  BATCH_STATUS,
  BATCH_TAG,
  CHANNEL_HEAD_WORD,
  CHANNEL_TAIL_WORD,
  COMPLETION_SLOT,
  type ChannelShape,
} from "../blocks/layout.ts";
import { brokenInvariant } from "../errors.ts";
import type { NativeBinding } from "../native/binding.ts";
import { ChannelWords } from "./channel-words.ts";
import type { EngineChannel } from "./engine.ts";

export interface NativeChannelOptions {
  /** The channel's memory: registered with the addon, opened by `channelOpen`, at least `channelWords(shape)` long. */
  readonly words: Int32Array;
  readonly shape: ChannelShape;
  /** The addon, or a simulated engine that serves the same memory. */
  readonly binding: Pick<NativeBinding, "channelSubmit">;
  readonly channelId: number;
  /** Epoch of the attaching actor. */
  readonly epoch: number;
}

/**
 * Attaches the calling actor to a channel. The first actor and every successor attach alike: batches that a predecessor
 * submitted stay in flight and are delivered by `poll` with its epoch; slots that it was filling or reading are free again.
 * At most one actor may be attached at a time.
 */
export function attachNativeChannel(options: NativeChannelOptions): EngineChannel {
  return new NativeChannel(options);
}

/**
 * States of a slot: FREE, FILLING (the actor has it: from acquire to submit, and from poll to release), SUBMITTED (the engine
 * has it), DONE (its completion is in the ring, or just about to be).
 */
class NativeChannel implements EngineChannel {
  readonly batchSlots: number;
  readonly keysPerBatchMax: number;
  readonly #channel: ChannelWords;
  readonly #words: Int32Array;
  readonly #options: NativeChannelOptions;
  readonly #free: Int32Array;
  #freeCount = 0;
  #inFlight = 0;

  constructor(options: NativeChannelOptions) {
    this.#options = options;
    this.#channel = new ChannelWords(options.words, options.shape);
    this.#words = options.words;
    this.batchSlots = options.shape.batchSlots;
    this.keysPerBatchMax = options.shape.keysPerBatchMax;
    this.#free = new Int32Array(this.batchSlots);
    for (let slot = this.batchSlots - 1; slot >= 0; slot--) this.#adopt(slot);
  }

  acquire(): number {
    if (this.#freeCount === 0) return -1;
    const slot = this.#free[--this.#freeCount]!;
    this.#publish(slot, BATCH_STATE_FILLING);
    return slot;
  }

  entries(slot: number): Int32Array {
    return this.#channel.entries(slot);
  }
  results(slot: number): Int32Array {
    return this.#channel.results(slot);
  }
  tiers(slot: number): Int32Array {
    return this.#channel.tiers(slot);
  }

  submit(
    slot: number,
    operation: number,
    keySpaceId: number,
    count: number,
    tag: number,
    job: number,
  ): void {
    const words = this.#words;
    const at = this.#channel.batch(slot);
    // Pairs with the store in `acquire`.
    if (Atomics.load(words, at + BATCH_STATE_WORD) !== BATCH_STATE_FILLING)
      brokenInvariant("batch is submitted without being acquired", slot);
    words[at + BATCH_OPERATION] = operation;
    words[at + BATCH_COUNT] = count;
    words[at + BATCH_TAG] = tag;
    words[at + BATCH_KEY_SPACE] = keySpaceId;
    words[at + BATCH_EPOCH] = this.#options.epoch;
    words[at + BATCH_JOB] = job;
    words[at + ACTOR_BATCH_TAKEN] = 0;
    this.#publish(slot, BATCH_STATE_SUBMITTED);
    this.#inFlight++;
    this.#handOver(slot);
  }

  poll(): number {
    const words = this.#words;
    for (;;) {
      const head = words[CHANNEL_HEAD_WORD]!;
      // Pairs with the engine's publishing store of the tail: ring entry, header and results are visible after it.
      if (Atomics.load(words, CHANNEL_TAIL_WORD) === head) return -1;
      const slot = words[this.#channel.completion(head) + COMPLETION_SLOT]!;
      const at = this.#channel.batch(slot) + BATCH_STATE_WORD;
      // A predecessor that died right here had taken the completion but left it in the ring: it is skipped.
      const done = Atomics.load(words, at) === BATCH_STATE_DONE;
      if (done) this.#publish(slot, BATCH_STATE_FILLING);
      // Hands the ring entry back; pairs with the engine's load of the head.
      Atomics.store(words, CHANNEL_HEAD_WORD, (head + 1) | 0);
      if (!done) continue;
      this.#inFlight--;
      return slot;
    }
  }

  status(slot: number): number {
    return this.#header(slot, BATCH_STATUS);
  }
  tag(slot: number): number {
    return this.#header(slot, BATCH_TAG);
  }
  job(slot: number): number {
    return this.#header(slot, BATCH_JOB);
  }
  count(slot: number): number {
    return this.#header(slot, BATCH_COUNT);
  }
  operation(slot: number): number {
    return this.#header(slot, BATCH_OPERATION);
  }
  epoch(slot: number): number {
    return this.#header(slot, BATCH_EPOCH);
  }
  microseconds(slot: number): number {
    return (
      this.#header(slot, BATCH_QUEUE_MICROSECONDS) + this.#header(slot, BATCH_ENGINE_MICROSECONDS)
    );
  }

  release(slot: number): void {
    if (this.#state(slot) !== BATCH_STATE_FILLING)
      brokenInvariant("batch is released while the engine has it", slot);
    this.#publish(slot, BATCH_STATE_FREE);
    this.#free[this.#freeCount++] = slot;
  }

  inFlight(): number {
    return this.#inFlight;
  }

  forEachSubmitted(visit: (slot: number) => void): void {
    for (let slot = 0; slot < this.batchSlots; slot++) {
      // A batch whose completion nobody has polled is still in flight for the actor.
      const state = this.#state(slot);
      if (state === BATCH_STATE_SUBMITTED || state === BATCH_STATE_DONE) visit(slot);
    }
  }

  #adopt(slot: number): void {
    const state = this.#state(slot);
    if (state === BATCH_STATE_SUBMITTED || state === BATCH_STATE_DONE) {
      this.#inFlight++;
      if (state === BATCH_STATE_SUBMITTED && this.#header(slot, ACTOR_BATCH_TAKEN) === 0)
        this.#handOverAgain(slot);
      return;
    }
    if (state !== BATCH_STATE_FREE) this.#publish(slot, BATCH_STATE_FREE);
    this.#free[this.#freeCount++] = slot;
  }

  #handOver(slot: number): void {
    try {
      this.#options.binding.channelSubmit(this.#options.channelId, slot);
    } catch (error) {
      // Refused: the engine does not have it, so nobody may wait for it.
      this.#publish(slot, BATCH_STATE_FILLING);
      this.#inFlight--;
      throw error;
    }
    this.#words[this.#channel.batch(slot) + ACTOR_BATCH_TAKEN] = 1;
  }

  #handOverAgain(slot: number): void {
    try {
      this.#options.binding.channelSubmit(this.#options.channelId, slot);
    } catch {
      // The engine has it already, or has just completed it: its completion comes as usual.
    }
    this.#words[this.#channel.batch(slot) + ACTOR_BATCH_TAKEN] = 1;
  }

  #header(slot: number, word: number): number {
    return this.#words[this.#channel.batch(slot) + word]!;
  }
  #state(slot: number): number {
    // Pairs with the engine's store of DONE.
    return Atomics.load(this.#words, this.#channel.batch(slot) + BATCH_STATE_WORD);
  }
  #publish(slot: number, state: number): void {
    // Pairs with the engine's load at submit, and with the loads of a successor.
    Atomics.store(this.#words, this.#channel.batch(slot) + BATCH_STATE_WORD, state);
  }
}
