import { EXISTS_UNCHECKED, OPERATION_EXISTS, REQUEST_HASH_PAGE } from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import type { EngineChannel } from "../../store/engine.ts";
import { STORE_LOOKUP_EXISTS } from "../../trace/counters.ts";
import { ItemQueue } from "../jobs/item-queue.ts";
import { outcomeOfCode } from "../jobs/outcomes.ts";
import { countExists, type StoreMetrics } from "../jobs/store-metrics.ts";
import type { ActorContext } from "../step.ts";
import type { Asking } from "./asking.ts";
import type { HitOrder, KeyOrder, KeyOrderOptions } from "./key-order.ts";
import type { LookupCounters } from "./lookup-counters.ts";
import type { LookupRecords } from "./lookup-records.ts";
import { PlannedKeys } from "./planned-keys.ts";
import { PrefixKeys } from "./prefix-keys.ts";

export interface ExistsOptions extends KeyOrderOptions {
  /** Exists batches of one lookup in the engine at a time. Default 2. */
  readonly batchesPerLookupMax?: number;
  readonly metrics?: StoreMetrics;
}

/** The engine's part of lookups: exists batches in the order of their keys, lookups in turn, no more once the rest says nothing. */
export class ExistsBatches implements Asking {
  readonly hits: HitOrder;
  /** Batches of predecessors that are still in the engine. */
  foreign = 0;
  readonly #tables: Tables;
  readonly #records: LookupRecords;
  readonly #keys: KeyOrder;
  readonly #keySpaceId: number;
  readonly #perLookupMax: number;
  readonly #metrics: StoreMetrics | undefined;
  readonly #counters: LookupCounters;
  readonly #queue: ItemQueue;
  /** Per batch slot, sized with the first batch: number of its first key. */
  #batchFrom = new Int32Array(0);

  constructor(options: ExistsOptions, records: LookupRecords, counters: LookupCounters) {
    this.#tables = options.tables;
    this.#records = records;
    this.#keySpaceId = options.keySpace.keySpaceId;
    this.#perLookupMax = options.batchesPerLookupMax ?? 2;
    this.#metrics = options.metrics;
    this.#counters = counters;
    this.#queue = new ItemQueue(records.capacity);
    const Keys = options.rules.uniform ? PrefixKeys : PlannedKeys;
    this.#keys = new Keys(options, records.capacity);
    this.hits = this.#keys;
  }

  adopt({ engine }: ActorContext): void {
    engine.forEachSubmitted(() => this.foreign++);
    this.#counters.adoptedBatches = this.foreign;
  }

  enqueue(record: number): void {
    if (this.#records.hasMore(record) && !this.#queue.has(record)) this.#queue.push(record);
  }

  /** One batch for each lookup in turn, until the channel is full. */
  pump(context: ActorContext): void {
    const { engine } = context;
    while (this.#queue.size > 0) {
      const batch = engine.acquire();
      if (batch < 0) {
        this.#counters.channelFull++;
        return;
      }
      const record = this.#queue.shift();
      if (this.#records.hasMore(record)) this.#submit(record, batch, engine, context);
      else engine.release(batch);
    }
  }

  /** Takes completions; `settled` may close the record. */
  poll(context: ActorContext, settled: (record: number) => void): void {
    const { engine } = context;
    for (let batch = engine.poll(); batch >= 0; batch = engine.poll()) {
      // A predecessor's question was asked again, or nobody wants it.
      const own = engine.epoch(batch) === context.epoch;
      const record = engine.tag(batch);
      if (own) this.#completed(record, batch, engine, context);
      else this.foreign--;
      engine.release(batch);
      if (own) settled(record);
    }
  }

  #submit(record: number, batch: number, engine: EngineChannel, context: ActorContext): void {
    const records = this.#records;
    const slot = records.slot[record]!;
    const from = records.nextKey[record]!;
    const to = Math.min(records.endKey[record]!, from + engine.keysPerBatchMax);
    const hashPage = this.#tables.requests[this.#tables.request(slot) + REQUEST_HASH_PAGE]!;
    this.#keys.fill(engine.entries(batch), record, hashPage, from, to);
    if (this.#batchFrom.length < engine.batchSlots)
      this.#batchFrom = new Int32Array(engine.batchSlots);
    this.#batchFrom[batch] = from;
    records.nextKey[record] = to;
    records.inFlight[record] = records.inFlight[record]! + 1;
    engine.submit(batch, OPERATION_EXISTS, this.#keySpaceId, to - from, record, slot);
    this.#counters.batches++;
    this.#counters.keys += to - from;
    context.trace.record("existsSubmitted", slot, records.generation[record]!, to - from, batch);
    if (records.inFlight[record] < this.#perLookupMax) this.enqueue(record);
  }

  #completed(record: number, batch: number, engine: EngineChannel, context: ActorContext): void {
    const records = this.#records;
    const status = engine.status(batch);
    const slot = records.slot[record]!;
    context.trace.record("existsDone", slot, records.generation[record]!, batch, status);
    countExists(this.#metrics, engine, batch, STORE_LOOKUP_EXISTS);
    this.#absorb(record, batch, engine, status);
    records.inFlight[record] = records.inFlight[record]! - 1;
    this.enqueue(record);
  }

  /** Notes which keys exist, or why the engine could not tell. */
  #absorb(record: number, batch: number, engine: EngineChannel, status: number): void {
    const records = this.#records;
    const from = this.#batchFrom[batch]!;
    const count = engine.count(batch);
    const results = engine.results(batch);
    if (status < 0) {
      records.failed(record, outcomeOfCode(status), from);
      return;
    }
    for (let index = 0; index < count; index++) {
      const result = results[index]!;
      if (result !== 0 && result !== 1 && result !== EXISTS_UNCHECKED) {
        records.failed(record, outcomeOfCode(result), from + index);
      } else if (this.#keys.told(record, from + index, result === 1)) {
        records.decided(record, from + index);
      }
    }
  }
}
