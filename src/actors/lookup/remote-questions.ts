import { HASH_STRIDE_WORDS, REQUEST_HASH_PAGE } from "../../blocks/layout.ts";
import { ChainCursor } from "../../blocks/page-arena.ts";
import { brokenInvariant } from "../../errors.ts";
import { OUTCOME_ENGINE_ERROR, OUTCOME_HIT } from "../messages.ts";
import { ItemQueue } from "../jobs/item-queue.ts";
import type { ActorContext, RemoteAnswer, RemoteLookups } from "../step.ts";
import type { Asking } from "./asking.ts";
import type { HitOrder, KeyOrderOptions } from "./key-order.ts";
import type { LookupCounters } from "./lookup-counters.ts";
import type { LookupRecords } from "./lookup-records.ts";
import { checkedAnswer, type CheckedAnswer, NO_ANSWER } from "./remote-answer.ts";

/** Whole lookups that another process answers, instead of keys that the engine is asked for: one "key" a lookup. */
export class RemoteQuestions implements Asking, HitOrder {
  readonly hits: HitOrder = this;
  /** Nothing of a predecessor comes here: its socket ended with it. */
  readonly foreign = 0;
  readonly #options: KeyOrderOptions;
  readonly #records: LookupRecords;
  readonly #counters: LookupCounters;
  readonly #queue: ItemQueue;
  readonly #cursor: ChainCursor;
  readonly #answers: CheckedAnswer[];

  constructor(options: KeyOrderOptions, records: LookupRecords, counters: LookupCounters) {
    this.#options = options;
    this.#records = records;
    this.#counters = counters;
    this.#queue = new ItemQueue(records.capacity);
    this.#cursor = new ChainCursor(options.tables.hashes);
    this.#answers = Array.from({ length: records.capacity }, () => NO_ANSWER);
  }

  hashBlocks(tokens: number, hashes: number): number {
    return Math.min(hashes, Math.floor(tokens / this.#options.rules.hashBlockSize));
  }
  begin(record: number, _tokens: number, hashes: number): number {
    this.#answers[record] = NO_ANSWER;
    return hashes > 0 ? 1 : 0;
  }
  hitTokens(record: number): number {
    return this.#answers[record]!.hitTokens;
  }
  tailTokens(record: number): readonly number[] {
    return this.#answers[record]!.tailTokens;
  }
  end(record: number): void {
    this.#answers[record] = NO_ANSWER;
  }

  adopt(): void {}

  enqueue(record: number): void {
    if (this.#records.hasMore(record) && !this.#queue.has(record)) this.#queue.push(record);
  }

  pump(context: ActorContext): void {
    while (this.#queue.size > 0) {
      const remote = remoteOf(context);
      if (remote.room() === 0) {
        this.#counters.channelFull++;
        return;
      }
      const record = this.#queue.shift();
      if (this.#records.hasMore(record)) this.#ask(record, remote);
    }
  }

  poll(context: ActorContext, settled: (record: number) => void): void {
    const remote = remoteOf(context);
    for (let answer = remote.poll(); answer !== null; answer = remote.poll()) {
      const { record } = answer;
      this.#records.inFlight[record] = 0;
      this.#take(answer, context);
      settled(record);
    }
  }

  #ask(record: number, remote: RemoteLookups): void {
    const records = this.#records;
    const slot = records.slot[record]!;
    const { tables } = this.#options;
    const count = records.hashBlocks[record]!;
    const hashes = new Int32Array(count * HASH_STRIDE_WORDS);
    const hashPage = tables.requests[tables.request(slot) + REQUEST_HASH_PAGE]!;
    const cursor = this.#cursor.seek(hashPage, 0);
    for (let block = 0; block < count; block++) {
      const at = cursor.advance();
      for (let word = 0; word < HASH_STRIDE_WORDS; word++)
        hashes[block * HASH_STRIDE_WORDS + word] = tables.hashes.words[at + word]!;
    }
    records.nextKey[record] = 1;
    records.inFlight[record] = 1;
    this.#counters.batches++;
    this.#counters.keys += count;
    remote.ask({ record, tokens: records.tokens[record]!, hashes });
  }

  #take(answer: RemoteAnswer, context: ActorContext): void {
    const records = this.#records;
    const { record, outcome } = answer;
    if (outcome !== OUTCOME_HIT) {
      records.failed(record, outcome, 0);
      return;
    }
    const asked = { tokens: records.tokens[record]!, hashes: records.hashBlocks[record]! };
    const checked = checkedAnswer(this.#options.rules, asked, answer);
    if (checked === null) {
      // The peer counts in other blocks than this process: nothing that it says can be loaded.
      context.log.error(
        { asked, answer },
        "the lookup server's answer fits no question of this model",
      );
      records.failed(record, OUTCOME_ENGINE_ERROR, 0);
    } else this.#answers[record] = checked;
  }
}

function remoteOf(context: ActorContext): RemoteLookups {
  return context.remoteLookups ?? brokenInvariant("no lookup server to ask", context.epoch);
}
