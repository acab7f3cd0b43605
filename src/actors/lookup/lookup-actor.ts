import {
  LOOKUP_SUBMITTED,
  lookupAttempt,
  lookupState,
  NONE,
  OPERATION_EXISTS,
  REQUEST_GENERATION,
  REQUEST_HASH_PAGE,
  REQUEST_LIVE_WORD,
  REQUEST_LOOKUP_ASKED_WORD,
  REQUEST_LOOKUP_TOKENS,
  REQUEST_PROMPT_TOKENS,
} from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import type { EngineChannel } from "../../store/engine.ts";
import type { WorkerKeySpace } from "../../store/key-spaces.ts";
import { COUNTERS, STORE_LOOKUP_EXISTS } from "../../trace/counters.ts";
import { ItemQueue } from "../jobs/item-queue.ts";
import { outcomeOfCode } from "../jobs/outcomes.ts";
import { countBatch, type StoreMetrics } from "../jobs/store-metrics.ts";
import {
  ACTOR_SCHEDULER,
  OUTCOME_CANCELLED,
  OUTCOME_ENGINE_DOWN,
  OUTCOME_ENGINE_ERROR,
  OUTCOME_HIT,
  OUTCOME_MISS,
  OUTCOME_NONE,
  type DiscardLookup,
  type HashRequest,
  type Lookup,
  type Message,
} from "../messages.ts";
import type { Actor, ActorContext, Inbox } from "../step.ts";
import { Answers } from "./answers.ts";
import { LookupKeys } from "./batching.ts";
import { hitTokens } from "./hit.ts";
import { LookupRecords, RECORD_ASKING, RECORD_HASHING } from "./lookup-records.ts";
import { PromptHashing } from "./prompt-hashing.ts";

export interface LookupOptions {
  readonly tables: Tables;
  /** Of any worker side of this process: their lookup prefixes cover all ranks. */
  readonly keySpace: Pick<WorkerKeySpace, "keySpaceId" | "lookupPrefixesOfGroup">;
  /** Blocks hashed in one step. Default 1024: about 150 us. */
  readonly hashBlocksPerStep?: number;
  /** Exists batches of one lookup in the engine at a time. Default 2. */
  readonly batchesPerLookupMax?: number;
  readonly metrics?: StoreMetrics;
}

export interface LookupCounters {
  lookups: number;
  hits: number;
  misses: number;
  failures: number;
  discarded: number;
  /** discardLookup that came after the answer. */
  lateDiscards: number;
  hashedBlocks: number;
  batches: number;
  keys: number;
  staleMessages: number;
  adoptedLookups: number;
  adoptedBatches: number;
  channelFull: number;
}

/** A request may have this many lookups in hand: those that a scheduler side and its dead predecessor may have open. */
const RECORDS_PER_SLOT = 6;

/**
 * Answers "how many leading tokens of this request are in the pool": hashes the prompt, asks the engine whether all keys of
 * each block exist, and publishes the longest prefix. A failure of the engine is an answer of its own, never a miss.
 */
export class LookupActor implements Actor {
  readonly counters: LookupCounters = {
    lookups: 0,
    hits: 0,
    misses: 0,
    failures: 0,
    discarded: 0,
    lateDiscards: 0,
    hashedBlocks: 0,
    batches: 0,
    keys: 0,
    staleMessages: 0,
    adoptedLookups: 0,
    adoptedBatches: 0,
    channelFull: 0,
  };
  readonly #tables: Tables;
  readonly #options: LookupOptions;
  readonly #keys: LookupKeys;
  readonly #hashing: PromptHashing;
  readonly #answers: Answers;
  readonly #records: LookupRecords;
  readonly #queue: ItemQueue;
  /** Slots whose `hashed` is to be sent when their prompt is hashed. */
  readonly #hashAsked: Uint8Array;
  /** Per batch slot, grown on demand: number of its first key. */
  #batchFrom = new Int32Array(0);
  #foreignBatches = 0;
  #started = false;
  #stopping = false;
  #stopMs = Infinity;

  constructor(options: LookupOptions) {
    const { tables, keySpace } = options;
    const { requestSlots } = tables.dimensions;
    this.#tables = tables;
    this.#options = options;
    this.#keys = new LookupKeys(tables, keySpace.lookupPrefixesOfGroup);
    this.#hashing = new PromptHashing(tables);
    this.#answers = new Answers(tables);
    this.#records = new LookupRecords(RECORDS_PER_SLOT * requestSlots, requestSlots);
    this.#queue = new ItemQueue(this.#records.capacity);
    this.#hashAsked = new Uint8Array(requestSlots);
  }

  step(inbox: Inbox, _tables: Tables, context: ActorContext): number {
    const { engine } = context;
    if (!this.#started) this.#adopt(engine, context);
    for (let batch = engine.poll(); batch >= 0; batch = engine.poll())
      this.#completed(batch, engine, context);
    for (let message = inbox.next(); message !== null; message = inbox.next())
      this.#receive(message, context);
    this.#hash(context);
    this.#pump(engine, context);
    if (context.nowMs() >= this.#stopMs) this.#giveUpAll(context);
    return this.#hashing.pending() > 0 ? context.nowMs() : this.#stopMs;
  }

  idle(): boolean {
    return this.#records.used === 0 && this.#hashing.pending() === 0 && this.#foreignBatches === 0;
  }

  #receive(message: Message, context: ActorContext): void {
    switch (message.kind) {
      case "hashRequest":
      case "lookup":
      case "discardLookup":
        if (!this.#current(message.slot, message.generation)) this.#stale(message, context);
        else if (message.kind === "hashRequest") this.#hashRequested(message, context);
        else if (message.kind === "lookup") this.#asked(message, context);
        else this.#discard(message, context);
        return;
      case "stop":
        this.#stopping = true;
        // The deadline crosses as an int32.
        this.#stopMs = context.nowMs() + ((message.deadlineMs - (context.nowMs() | 0)) | 0);
        return;
      case "actorRestarted":
        // A restarted scheduler side asks anew; answers to its predecessor's questions are stale there.
        return;
      default:
        this.#stale(message, context);
    }
  }

  #hashRequested(message: HashRequest, context: ActorContext): void {
    const { slot, generation } = message;
    const first = this.#hashAsked[slot] === 0;
    if (first) {
      this.#hashAsked[slot] = 1;
      this.#hashing.enter(slot, generation, this.#promptBlocks(slot));
    }
    if (this.#stopping || this.#hashing.covers(slot, this.#promptBlocks(slot)))
      this.#sendHashed(slot, generation, context);
  }

  #sendHashed(slot: number, generation: number, context: ActorContext): void {
    if (this.#hashAsked[slot] === 0) return;
    this.#hashAsked[slot] = 0;
    const blocks = this.#hashing.hashed(slot);
    this.#hashing.leave(slot, generation);
    context.send(ACTOR_SCHEDULER, { kind: "hashed", slot, generation, blocks });
  }

  #asked(message: Lookup, context: ActorContext): void {
    const { slot, generation, attempt, tokens } = message;
    const known =
      this.#records.find(slot, generation, attempt) !== NONE ||
      this.#answers.answered(slot, attempt);
    // A successor has found the question in the table already.
    if (known) return this.#stale(message, context);
    this.#answers.asked(slot, attempt);
    this.#open(slot, generation, attempt, tokens, context);
  }

  #open(
    slot: number,
    generation: number,
    attempt: number,
    tokens: number,
    context: ActorContext,
  ): void {
    const records = this.#records;
    const record = records.open(slot, generation, attempt, tokens);
    if (record === NONE || this.#stopping) {
      if (record !== NONE) records.close(record);
      const state = this.#stopping ? OUTCOME_ENGINE_DOWN : OUTCOME_ENGINE_ERROR;
      this.#answers.publish(slot, attempt, context.epoch, state, 0, 0);
      context.send(ACTOR_SCHEDULER, { kind: "lookupDone", slot, generation, attempt });
      return;
    }
    this.counters.lookups++;
    const { blockSize, hashBlockSize } = this.#tables.dimensions;
    const chunks = Math.floor(tokens / blockSize);
    records.beganMs[record] = context.nowMs();
    records.endKey[record] = chunks * this.#keys.keysPerChunk;
    records.hashBlocks[record] = (chunks * blockSize) / hashBlockSize;
    this.#hashing.enter(slot, generation, records.hashBlocks[record]!);
    this.#ask(record, context);
  }

  /** From hashing to asking, when the hashes are there. */
  #ask(record: number, context: ActorContext): void {
    const records = this.#records;
    const slot = records.slot[record]!;
    if (!this.#hashing.covers(slot, records.hashBlocks[record]!)) return;
    records.phase[record] = RECORD_ASKING;
    if (records.hasMore(record)) this.#enqueue(record);
    else this.#finishIfDone(record, context);
  }

  #discard(message: DiscardLookup, context: ActorContext): void {
    const record = this.#records.find(message.slot, message.generation, message.attempt);
    if (record === NONE) {
      // It crossed with the answer.
      this.counters.lateDiscards++;
      return;
    }
    this.#records.discarded[record] = 1;
    this.counters.discarded++;
    this.#finishIfDone(record, context);
  }

  #hash(context: ActorContext): void {
    const blocksMax = this.#options.hashBlocksPerStep ?? 1024;
    this.counters.hashedBlocks += this.#hashing.run(context, blocksMax, (slot) => {
      const generation = this.#tables.requests[this.#tables.request(slot) + REQUEST_GENERATION]!;
      if (this.#hashing.covers(slot, this.#promptBlocks(slot)))
        this.#sendHashed(slot, generation, context);
      for (let record = this.#records.first(slot); record !== NONE;) {
        const next = this.#records.after(record);
        if (this.#records.phase[record] === RECORD_HASHING) this.#ask(record, context);
        record = next;
      }
    });
  }

  /** One batch for each lookup in turn. */
  #pump(engine: EngineChannel, context: ActorContext): void {
    const records = this.#records;
    while (this.#queue.size > 0) {
      const batch = engine.acquire();
      if (batch < 0) {
        this.counters.channelFull++;
        return;
      }
      const record = this.#queue.shift();
      if (records.hasMore(record)) this.#submit(record, batch, engine, context);
      else engine.release(batch);
    }
  }

  #submit(record: number, batch: number, engine: EngineChannel, context: ActorContext): void {
    const records = this.#records;
    const slot = records.slot[record]!;
    const from = records.nextKey[record]!;
    const to = Math.min(records.endKey[record]!, from + engine.keysPerBatchMax);
    const hashPage = this.#tables.requests[this.#tables.request(slot) + REQUEST_HASH_PAGE]!;
    this.#keys.fill(engine.entries(batch), hashPage, from, to);
    if (this.#batchFrom.length < engine.batchSlots)
      this.#batchFrom = new Int32Array(engine.batchSlots);
    this.#batchFrom[batch] = from;
    records.nextKey[record] = to;
    records.inFlight[record] = records.inFlight[record]! + 1;
    const { keySpaceId } = this.#options.keySpace;
    engine.submit(batch, OPERATION_EXISTS, keySpaceId, to - from, record, slot);
    this.counters.batches++;
    this.counters.keys += to - from;
    context.trace.record("existsSubmitted", slot, records.generation[record]!, to - from, batch);
    if (records.inFlight[record]! < (this.#options.batchesPerLookupMax ?? 2)) this.#enqueue(record);
  }

  #completed(batch: number, engine: EngineChannel, context: ActorContext): void {
    if (engine.epoch(batch) !== context.epoch) {
      // A predecessor's question: it was asked again, or nobody wants it.
      engine.release(batch);
      this.#foreignBatches--;
      return;
    }
    const records = this.#records;
    const record = engine.tag(batch);
    const status = engine.status(batch);
    const slot = records.slot[record]!;
    context.trace.record("existsDone", slot, records.generation[record]!, batch, status);
    const failed = this.#absorb(record, batch, engine, status);
    countBatch(this.#options.metrics, engine, batch, STORE_LOOKUP_EXISTS, failed, 0);
    engine.release(batch);
    records.inFlight[record] = records.inFlight[record]! - 1;
    this.#enqueue(record);
    this.#finishIfDone(record, context);
  }

  /** Notes the first absent key, or why the engine could not tell. Returns the keys that it could not tell of. */
  #absorb(record: number, batch: number, engine: EngineChannel, status: number): number {
    const records = this.#records;
    const count = engine.count(batch);
    const results = engine.results(batch);
    let failed = 0;
    if (status < 0) {
      records.failure[record] = outcomeOfCode(status);
      return count;
    }
    for (let index = 0; index < count; index++) {
      const result = results[index]!;
      if (result === 1) continue;
      if (result < 0) {
        failed++;
        records.failure[record] = outcomeOfCode(result);
        continue;
      }
      const key = this.#batchFrom[batch]! + index;
      const known = records.absentKey[record]!;
      if (known === NONE || key < known) records.absentKey[record] = key;
    }
    return failed;
  }

  #enqueue(record: number): void {
    if (this.#records.hasMore(record) && !this.#queue.has(record)) this.#queue.push(record);
  }

  #finishIfDone(record: number, context: ActorContext): void {
    const records = this.#records;
    if (records.inFlight[record]! > 0) return;
    const waits = records.phase[record] === RECORD_HASHING && records.discarded[record] === 0;
    if (waits || records.hasMore(record)) return;
    this.#finish(record, this.#outcome(record), context);
  }

  #outcome(record: number): number {
    const records = this.#records;
    if (records.discarded[record] === 1) return OUTCOME_CANCELLED;
    if (records.failure[record] !== OUTCOME_NONE) return records.failure[record]!;
    return this.#hit(record) > 0 ? OUTCOME_HIT : OUTCOME_MISS;
  }

  #hit(record: number): number {
    const records = this.#records;
    const absent = records.absentKey[record]!;
    const keys = absent === NONE ? records.endKey[record]! : absent;
    const leading = Math.floor(keys / this.#keys.keysPerChunk);
    return hitTokens(leading, records.tokens[record]!, this.#tables.dimensions.blockSize);
  }

  #finish(record: number, outcome: number, context: ActorContext): void {
    const records = this.#records;
    const slot = records.slot[record]!;
    const generation = records.generation[record]!;
    const attempt = records.attempt[record]!;
    const microseconds = (context.nowMs() - records.beganMs[record]!) * 1000;
    const hit = outcome === OUTCOME_HIT ? this.#hit(record) : 0;
    const state = outcome === OUTCOME_CANCELLED ? 0 : outcome;
    if (outcome === OUTCOME_HIT) this.counters.hits++;
    else if (outcome === OUTCOME_MISS) this.counters.misses++;
    else if (outcome !== OUTCOME_CANCELLED) this.counters.failures++;
    this.#options.metrics?.add(COUNTERS.lookups + outcome, 1);
    records.close(record);
    this.#hashing.leave(slot, generation);
    this.#answers.publish(slot, attempt, context.epoch, state, hit, microseconds);
    context.send(ACTOR_SCHEDULER, { kind: "lookupDone", slot, generation, attempt });
  }

  #giveUpAll(context: ActorContext): void {
    this.#stopMs = Infinity;
    for (let record = 0; record < this.#records.capacity; record++) {
      if (!this.#records.inUse(record)) continue;
      this.#records.discarded[record] = 1;
      this.#finishIfDone(record, context);
    }
  }

  /** Takes over from a dead predecessor (none: finds nothing): questions in the table without an answer are asked again. */
  #adopt(engine: EngineChannel, context: ActorContext): void {
    this.#started = true;
    engine.forEachSubmitted(() => this.#foreignBatches++);
    this.counters.adoptedBatches = this.#foreignBatches;
    const words = this.#tables.requests;
    for (let slot = 0; slot < this.#tables.dimensions.requestSlots; slot++) {
      const at = this.#tables.request(slot);
      // Pairs with the owner's store: the record is whole.
      if (Atomics.load(words, at + REQUEST_LIVE_WORD) !== 1) continue;
      // Pairs with the scheduler side's store after it wrote the tokens.
      const asked = Atomics.load(words, at + REQUEST_LOOKUP_ASKED_WORD);
      if (lookupState(asked) !== LOOKUP_SUBMITTED) continue;
      this.#adoptQuestion(slot, lookupAttempt(asked), context);
    }
  }

  #adoptQuestion(slot: number, attempt: number, context: ActorContext): void {
    const at = this.#tables.request(slot);
    const generation = this.#tables.requests[at + REQUEST_GENERATION]!;
    this.#answers.asked(slot, attempt);
    if (!this.#answers.published(slot, attempt)) {
      this.counters.adoptedLookups++;
      const tokens = this.#tables.requests[at + REQUEST_LOOKUP_TOKENS]!;
      this.#open(slot, generation, attempt, tokens, context);
    } else if (this.#answers.givenUp(slot)) {
      // The message may have died with the predecessor; one too many is dropped by the receiver.
      context.send(ACTOR_SCHEDULER, { kind: "lookupDone", slot, generation, attempt });
    }
  }

  #promptBlocks(slot: number): number {
    const at = this.#tables.request(slot);
    const { hashBlockSize } = this.#tables.dimensions;
    return Math.floor(this.#tables.requests[at + REQUEST_PROMPT_TOKENS]! / hashBlockSize);
  }

  #current(slot: number, generation: number): boolean {
    if (!(slot >= 0 && slot < this.#tables.dimensions.requestSlots)) return false;
    const at = this.#tables.request(slot);
    // Pairs with the owner's stores when it publishes and releases the slot.
    return (
      Atomics.load(this.#tables.requests, at + REQUEST_LIVE_WORD) === 1 &&
      this.#tables.requests[at + REQUEST_GENERATION] === generation
    );
  }

  #stale(message: Message, context: ActorContext): void {
    this.counters.staleMessages++;
    context.trace.record("staleMessage", NONE, NONE, 0, 0);
    context.log.debug({ message }, "a late, duplicate or unknown message is dropped");
  }
}
