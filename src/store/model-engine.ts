import {
  BATCH_COUNT,
  BATCH_ENGINE_MICROSECONDS,
  BATCH_KEY_SPACE,
  BATCH_OPERATION,
  BATCH_QUEUE_MICROSECONDS,
  BATCH_STATE_DONE,
  BATCH_STATE_SUBMITTED,
  BATCH_STATE_WORD,
  BATCH_STATUS,
  BATCH_TAG,
  CHANNEL_TAIL_WORD,
  channelWords,
  COMPLETION_MICROSECONDS,
  COMPLETION_SLOT,
  COMPLETION_STATUS,
  COMPLETION_TAG,
  ENTRY_BLOCK,
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_PREFIX,
  ENTRY_WORDS,
  OPERATION_EXISTS,
  OPERATION_GET,
  OPERATION_PUT,
  OPERATION_REMOVE,
  OPERATION_REMOVE_ALL,
  TIER_MEMORY,
  TIER_UNKNOWN,
  type ChannelShape,
} from "../blocks/layout.ts";
import type { PageArena } from "../blocks/page-arena.ts";
import { brokenInvariant } from "../errors.ts";
import type { BlockMemory } from "./block-memory.ts";
import { ChannelWords } from "./channel-words.ts";
import { EngineCode, type EngineChannel } from "./engine.ts";
import { NO_FAULTS, type EngineFaults } from "./fault-engine.ts";
import type { ModelPool } from "./model-pool.ts";
import { attachNativeChannel } from "./native-channel.ts";

/** How the simulated engine forms keys and finds bytes; its place in the list is its key space id. */
export interface SimulatedKeySpace {
  readonly prefixes: readonly string[];
  readonly hashBytes: number;
  readonly hashes: PageArena;
  readonly groups: readonly BlockMemory[];
}

export interface SimulatedChannelOptions {
  readonly shape: ChannelShape;
  readonly pool: ModelPool;
  readonly keySpaces: readonly SimulatedKeySpace[];
  /** Runs `run` after `delayMs` of virtual time. */
  readonly schedule: (delayMs: number, run: () => void) => void;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** A completion is in the ring: the actor should step. */
  readonly wake: () => void;
  /** Longest time of a batch in the engine, before faults make it slower. */
  readonly delayMsMax: number;
  readonly faults?: EngineFaults;
}

/** Parts of a batch that touch memory at moments of their own, like the I/O threads of the native engine. */
const PARTS_MAX = 4;

/**
 * The simulated engine behind one channel: the truth for tests. It serves the same shared words as the native engine, so the
 * actor's side of the channel is the real one. Keys are formed, and block bytes read or written, at random moments between
 * submit and completion: a block or a hash row that is handed out again too early shows as wrong bytes.
 */
export class SimulatedChannel {
  readonly #options: SimulatedChannelOptions;
  readonly #faults: EngineFaults;
  readonly #channel: ChannelWords;
  readonly #taken: Uint8Array;
  #inFlight = 0;

  constructor(options: SimulatedChannelOptions) {
    this.#options = options;
    this.#faults = options.faults ?? NO_FAULTS;
    this.#channel = new ChannelWords(new Int32Array(channelWords(options.shape)), options.shape);
    this.#taken = new Uint8Array(options.shape.batchSlots);
  }

  /** For the actor of `epoch`; a former attachment must not be used any more. */
  attach(epoch: number): EngineChannel {
    const { words, shape } = this.#channel;
    return attachNativeChannel({ words, shape, binding: this, channelId: 0, epoch });
  }

  get words(): Int32Array {
    return this.#channel.words;
  }

  /** Batches whose completion is not in the ring yet. */
  inFlight(): number {
    return this.#inFlight;
  }

  /** The engine's end of `submit`; see NativeBinding.channelSubmit. */
  channelSubmit(_channelId: number, slot: number): void {
    const at = this.#channel.batch(slot);
    const { words } = this.#channel;
    // Pairs with the actor's publishing store.
    const state = Atomics.load(words, at + BATCH_STATE_WORD);
    if (this.#taken[slot] === 1 || state !== BATCH_STATE_SUBMITTED)
      brokenInvariant("batch is in flight already, or not submitted", slot);
    this.#taken[slot] = 1;
    this.#inFlight++;
    const { random, schedule, delayMsMax } = this.#options;
    const delayMs = random() * delayMsMax * this.#faults.slowness();
    const count = words[at + BATCH_COUNT]!;
    const parts = Math.min(PARTS_MAX, count);
    for (let part = 0; part < parts; part++) {
      const from = Math.floor((count * part) / parts);
      const to = Math.floor((count * (part + 1)) / parts);
      schedule(random() * delayMs, () => this.#runPart(slot, from, to));
    }
    schedule(delayMs, () => this.#complete(slot, delayMs));
  }

  #runPart(slot: number, from: number, to: number): void {
    const at = this.#channel.batch(slot);
    const operation = this.#channel.words[at + BATCH_OPERATION]!;
    const keySpace = this.#options.keySpaces[this.#channel.words[at + BATCH_KEY_SPACE]!];
    const entries = this.#channel.entries(slot);
    for (let index = from; index < to; index++) {
      this.#channel.tiers(slot)[index] = TIER_UNKNOWN;
      this.#channel.results(slot)[index] =
        keySpace === undefined
          ? EngineCode.BAD_ENTRY
          : this.#runKey(slot, index, operation, keySpace, entries);
    }
  }

  #runKey(
    slot: number,
    index: number,
    operation: number,
    keySpace: SimulatedKeySpace,
    entries: Int32Array,
  ): number {
    const { pool } = this.#options;
    const at = index * ENTRY_WORDS;
    const key = keyText(keySpace, entries[at + ENTRY_PREFIX]!, entries[at + ENTRY_HASH_ROW]!);
    if (key === undefined) return EngineCode.BAD_ENTRY;
    const fault = this.#faults.keyResult(operation);
    if (fault !== EngineCode.OK) return fault;
    if (operation === OPERATION_EXISTS) return pool.has(key) ? this.#inMemory(slot, index, 1) : 0;
    if (operation === OPERATION_REMOVE)
      return pool.remove(key) ? EngineCode.OK : EngineCode.OBJECT_NOT_FOUND;
    const memory = keySpace.groups[entries[at + ENTRY_GROUP]!];
    const block = entries[at + ENTRY_BLOCK]!;
    if (memory === undefined || !memory.has(block)) return EngineCode.BAD_ENTRY;
    if (operation === OPERATION_PUT) return pool.put(key, memory.read(block));
    if (operation !== OPERATION_GET) return EngineCode.ENGINE_ERROR;
    if (this.#faults.evicts()) pool.remove(key);
    const value = pool.get(key);
    if (value === undefined) return EngineCode.OBJECT_NOT_FOUND;
    if (value.length !== memory.valueBytes) {
      this.#channel.tiers(slot)[index] = value.length;
      return value.length > memory.valueBytes
        ? EngineCode.BUFFER_SMALLER
        : EngineCode.BUFFER_LARGER;
    }
    memory.write(block, value);
    return this.#inMemory(slot, index, value.length);
  }

  #inMemory(slot: number, index: number, result: number): number {
    this.#channel.tiers(slot)[index] = TIER_MEMORY;
    return result;
  }

  #complete(slot: number, delayMs: number): void {
    const { words } = this.#channel;
    const at = this.#channel.batch(slot);
    const operation = words[at + BATCH_OPERATION]!;
    if (operation === OPERATION_REMOVE_ALL) this.#options.pool.clear();
    const status = this.#faults.batchStatus(operation);
    if (status !== EngineCode.OK)
      this.#channel.results(slot).fill(status, 0, words[at + BATCH_COUNT]);
    const microseconds = Math.round(delayMs * 1000);
    words[at + BATCH_STATUS] = status;
    words[at + BATCH_QUEUE_MICROSECONDS] = 0;
    words[at + BATCH_ENGINE_MICROSECONDS] = microseconds;
    this.#taken[slot] = 0;
    this.#inFlight--;
    const tail = words[CHANNEL_TAIL_WORD]!;
    const completion = this.#channel.completion(tail);
    words[completion + COMPLETION_SLOT] = slot;
    words[completion + COMPLETION_STATUS] = status;
    words[completion + COMPLETION_TAG] = words[at + BATCH_TAG]!;
    words[completion + COMPLETION_MICROSECONDS] = microseconds;
    // Pairs with the loads in `release` and `forEachSubmitted`.
    Atomics.store(words, at + BATCH_STATE_WORD, BATCH_STATE_DONE);
    // Publishes the completion; pairs with the actor's load in `poll`.
    Atomics.store(words, CHANNEL_TAIL_WORD, (tail + 1) | 0);
    this.#options.wake();
  }
}

/** Key text as the addon forms it, or undefined when prefix or row are out of range. */
export function keyText(
  keySpace: SimulatedKeySpace,
  prefix: number,
  hashRow: number,
): string | undefined {
  const { hashes, hashBytes, prefixes } = keySpace;
  const text = prefixes[prefix];
  if (text === undefined || hashRow < 0 || hashRow >= hashes.pages * hashes.entriesPerPage)
    return undefined;
  const page = Math.floor(hashRow / hashes.entriesPerPage);
  const word = hashes.offset(page, hashRow - page * hashes.entriesPerPage);
  const { buffer, byteOffset } = hashes.words;
  const digest = Buffer.from(buffer, byteOffset + word * 4, hashBytes);
  return `${text}@${digest.toString("hex")}`;
}
