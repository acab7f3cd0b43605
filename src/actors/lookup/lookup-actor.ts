import { recordStale } from "../mailbox/stale.ts";
import { widenTime } from "../../blocks/int32-time.ts";
import { LOOKUP_RECORDS_PER_SLOT } from "../../blocks/capacities.ts";
import { NONE, REQUEST_LOOKUP_HASHED_BLOCKS, REQUEST_LOOKUP_TOKENS } from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import { COUNTERS } from "../../trace/counters.ts";
import {
  ACTOR_SCHEDULER,
  OUTCOME_CANCELLED,
  OUTCOME_ENGINE_DOWN,
  OUTCOME_ENGINE_ERROR,
  OUTCOME_HIT,
  OUTCOME_NONE,
  OUTCOME_MISS,
  type DiscardLookup,
  type HashRequest,
  type Lookup,
  type Message,
} from "../messages.ts";
import type { Actor, ActorContext, ActorInspection, Inbox } from "../step.ts";
import { Answers } from "./answers.ts";
import type { Asking } from "./asking.ts";
import { ExistsBatches, type ExistsOptions } from "./exists-batches.ts";
import { countOutcome, createLookupCounters, type LookupCounters } from "./lookup-counters.ts";
import { inspectLookups } from "./inspect.ts";
import type { HitOrder } from "./key-order.ts";
import { failureOf } from "./lookup-outcome.ts";
import { LookupRecords, RECORD_ASKING, RECORD_HASHING } from "./lookup-records.ts";
import { RemoteQuestions } from "./remote-questions.ts";
import { PromptHashing } from "./prompt-hashing.ts";
import { forEachQuestion, isCurrent, promptBlocks } from "./requests.ts";

export interface LookupOptions extends ExistsOptions {
  /** Blocks hashed in one step. Default 1024: about 150 us. */
  readonly hashBlocksPerStep?: number;
  /** Lookups are answered by another process (`context.remoteLookups`) instead of the engine. */
  readonly remote?: boolean;
}

/**
 * Answers "how many leading tokens of this request are in the pool": hashes the prompt, asks the engine whether all keys of
 * each block exist, and publishes the longest prefix. A failure of the engine is an answer of its own, never a miss.
 */
export class LookupActor implements Actor {
  readonly counters: LookupCounters = createLookupCounters();
  readonly #tables: Tables;
  readonly #options: LookupOptions;
  readonly #hits: HitOrder;
  readonly #hashing: PromptHashing;
  readonly #answers: Answers;
  readonly #records: LookupRecords;
  readonly #asking: Asking;
  /** Generation of the slot that waits for `hashed`, or NONE. */
  readonly #hashAsked: Int32Array;
  #started = false;
  #stopping = false;
  #stopMs = Infinity;

  constructor(options: LookupOptions) {
    const { tables } = options;
    const { requestSlots } = tables.dimensions;
    this.#tables = tables;
    this.#options = options;
    this.#hashing = new PromptHashing(tables);
    this.#answers = new Answers(tables);
    const records = LOOKUP_RECORDS_PER_SLOT * requestSlots;
    this.#records = new LookupRecords(records, requestSlots);
    this.#asking =
      options.remote === true
        ? new RemoteQuestions(options, this.#records, this.counters)
        : new ExistsBatches(options, this.#records, this.counters);
    this.#hits = this.#asking.hits;
    this.#hashAsked = new Int32Array(requestSlots).fill(NONE);
  }

  step(inbox: Inbox, _tables: Tables, context: ActorContext): number {
    if (!this.#started) this.#adopt(context);
    this.#asking.poll(context, (record) => this.#finishIfDone(record, context));
    for (let message = inbox.next(); message !== null; message = inbox.next())
      this.#receive(message, context);
    this.#hash(context);
    this.#asking.pump(context);
    if (context.nowMs() >= this.#stopMs) this.#giveUpAll(context);
    return this.#hashing.pending() > 0 ? context.nowMs() : this.#stopMs;
  }

  idle(): boolean {
    return this.#records.used === 0 && this.#hashing.pending() === 0 && this.#asking.foreign === 0;
  }

  inspect(nowMs: number): ActorInspection {
    const queues = {
      promptsToHash: this.#hashing.pending(),
      batchesOfPredecessors: this.#asking.foreign,
    };
    return inspectLookups(this.counters, this.#records, queues, nowMs);
  }

  #receive(message: Message, context: ActorContext): void {
    switch (message.kind) {
      case "hashRequest":
      case "lookup":
      case "discardLookup":
        if (!isCurrent(this.#tables, message.slot, message.generation))
          this.#stale(message, context);
        else if (message.kind === "hashRequest") this.#hashRequested(message, context);
        else if (message.kind === "lookup") this.#asked(message, context);
        else this.#discard(message, context);
        return;
      case "stop":
        this.#stopping = true;
        this.#stopMs = widenTime(message.deadlineMs, context.nowMs());
        return;
      case "actorRestarted":
      case "actorGone":
        // A restarted scheduler side asks anew; answers to its predecessor's questions are stale there.
        return;
      default:
        this.#stale(message, context);
    }
  }

  #hashRequested(message: HashRequest, context: ActorContext): void {
    const { slot, generation } = message;
    // Asked again while it is under way (after a restart of ours): one answer is enough.
    if (this.#hashAsked[slot] !== generation) {
      this.#hashAsked[slot] = generation;
      this.#hashing.enter(slot, generation, promptBlocks(this.#tables, slot), 0);
    }
    if (this.#stopping || this.#hashing.covers(slot, promptBlocks(this.#tables, slot)))
      this.#sendHashed(slot, generation, context);
  }

  #sendHashed(slot: number, generation: number, context: ActorContext): void {
    if (this.#hashAsked[slot] !== generation) return;
    this.#hashAsked[slot] = NONE;
    const blocks = this.#hashing.hashed(slot);
    this.#hashing.leave(slot, generation);
    context.send(ACTOR_SCHEDULER, { kind: "hashed", slot, generation, blocks });
  }

  #asked(message: Lookup, context: ActorContext): void {
    const { slot, generation, attempt, tokens, hashedBlocks } = message;
    const known =
      this.#records.find(slot, generation, attempt) !== NONE ||
      this.#answers.answered(slot, attempt);
    // A successor has found the question in the table already.
    if (known) return this.#stale(message, context);
    this.#answers.asked(slot, attempt);
    this.#open(slot, generation, attempt, tokens, hashedBlocks, context);
    // A late copy of a question may bring hashes that somebody else has asked for and still waits for.
    if (this.#hashing.covers(slot, promptBlocks(this.#tables, slot)))
      this.#sendHashed(slot, generation, context);
  }

  #open(
    slot: number,
    generation: number,
    attempt: number,
    tokens: number,
    hashedBlocks: number,
    context: ActorContext,
  ): void {
    const records = this.#records;
    const record = records.open(slot, generation, attempt, tokens);
    if (record === NONE || this.#stopping) {
      if (record !== NONE) records.close(record);
      const state = this.#stopping ? OUTCOME_ENGINE_DOWN : OUTCOME_ENGINE_ERROR;
      this.#answers.publish(slot, attempt, context.epoch, state, 0);
      context.send(ACTOR_SCHEDULER, { kind: "lookupDone", slot, generation, attempt });
      return;
    }
    this.counters.lookups++;
    // Nothing past the prompt is hashed here: a hit beyond needs hashes that the scheduler side has written before it asks.
    const hashable = Math.max(hashedBlocks, promptBlocks(this.#tables, slot));
    records.beganMs[record] = context.nowMs();
    records.hashBlocks[record] = this.#hits.hashBlocks(tokens, hashable);
    this.#hashing.enter(slot, generation, records.hashBlocks[record], hashedBlocks);
    this.#ask(record, context);
  }

  /** From hashing to asking, when the hashes are there. */
  #ask(record: number, context: ActorContext): void {
    const records = this.#records;
    const slot = records.slot[record]!;
    const hashBlocks = records.hashBlocks[record]!;
    if (!this.#hashing.covers(slot, hashBlocks)) return;
    records.phase[record] = RECORD_ASKING;
    records.endKey[record] = this.#hits.begin(record, records.tokens[record]!, hashBlocks);
    if (records.hasMore(record)) this.#asking.enqueue(record);
    else this.#finishIfDone(record, context);
  }

  #discard(message: DiscardLookup, context: ActorContext): void {
    const record = this.#records.find(message.slot, message.generation, message.attempt);
    if (record === NONE) {
      // It crossed with the answer.
      this.counters.lateDiscards++;
      return;
    }
    this.counters.discarded++;
    this.#giveUp(record, context);
  }

  /** Ends the lookup without an answer, when no batch of it is in the engine any more. */
  #giveUp(record: number, context: ActorContext): void {
    this.#records.discarded[record] = 1;
    this.#finishIfDone(record, context);
  }

  #hash(context: ActorContext): void {
    const blocksMax = this.#options.hashBlocksPerStep ?? 1024;
    this.counters.hashedBlocks += this.#hashing.run(context, blocksMax, (slot, generation) => {
      if (this.#hashing.covers(slot, promptBlocks(this.#tables, slot)))
        this.#sendHashed(slot, generation, context);
      for (let record = this.#records.first(slot); record !== NONE;) {
        const next = this.#records.after(record);
        if (!isCurrent(this.#tables, slot, this.#records.generation[record]!))
          this.#giveUp(record, context);
        else if (this.#records.phase[record] === RECORD_HASHING) this.#ask(record, context);
        record = next;
      }
    });
  }

  #finishIfDone(record: number, context: ActorContext): void {
    const records = this.#records;
    if (records.inFlight[record]! > 0) return;
    const waits = records.phase[record] === RECORD_HASHING && records.discarded[record] === 0;
    if (waits || records.hasMore(record)) return;
    const failure = failureOf(records, record);
    if (failure !== OUTCOME_NONE) return this.#finish(record, failure, 0, context);
    const hit = this.#hits.hitTokens(record);
    this.#finish(record, hit > 0 ? OUTCOME_HIT : OUTCOME_MISS, hit, context);
  }

  #finish(record: number, outcome: number, hit: number, context: ActorContext): void {
    const records = this.#records;
    const slot = records.slot[record]!;
    const generation = records.generation[record]!;
    const attempt = records.attempt[record]!;
    const state = outcome === OUTCOME_CANCELLED ? 0 : outcome;
    countOutcome(this.counters, outcome);
    this.#options.metrics?.add(COUNTERS.lookups + outcome, 1);
    records.close(record);
    this.#hashing.leave(slot, generation);
    this.#answers.publish(slot, attempt, context.epoch, state, hit, this.#hits.tailTokens(record));
    this.#hits.end(record);
    context.send(ACTOR_SCHEDULER, { kind: "lookupDone", slot, generation, attempt });
  }

  #giveUpAll(context: ActorContext): void {
    this.#stopMs = Infinity;
    for (let record = 0; record < this.#records.capacity; record++) {
      if (this.#records.inUse(record)) this.#giveUp(record, context);
    }
  }

  /** Takes over from a dead predecessor (none: finds nothing): questions in the table without an answer are asked again. */
  #adopt(context: ActorContext): void {
    this.#started = true;
    this.#asking.adopt(context);
    if (context.epoch === 1) return;
    forEachQuestion(this.#tables, (slot, generation, attempt) =>
      this.#adoptQuestion(slot, generation, attempt, context),
    );
  }

  #adoptQuestion(slot: number, generation: number, attempt: number, context: ActorContext): void {
    this.#answers.asked(slot, attempt);
    if (!this.#answers.published(slot, attempt)) {
      this.counters.adoptedLookups++;
      const words = this.#tables.requests;
      const at = this.#tables.request(slot);
      const { [at + REQUEST_LOOKUP_TOKENS]: tokens, [at + REQUEST_LOOKUP_HASHED_BLOCKS]: hashed } =
        words;
      this.#open(slot, generation, attempt, tokens!, hashed!, context);
    } else if (this.#answers.givenUp(slot)) {
      // The message may have died with the predecessor; one too many is dropped by the receiver.
      context.send(ACTOR_SCHEDULER, { kind: "lookupDone", slot, generation, attempt });
    }
  }

  #stale(message: Message, context: ActorContext): void {
    this.counters.staleMessages++;
    recordStale(context, message);
  }
}
