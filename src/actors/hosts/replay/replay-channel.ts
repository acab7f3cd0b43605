import { ENTRY_WORDS } from "../../../blocks/layout.ts";
import type { EngineChannel } from "../../../store/engine.ts";
import {
  CALL_ACQUIRE,
  CALL_IN_FLIGHT,
  CALL_POLL,
  CALL_SUBMITTED,
  type RecordedOutput,
  type TableChanges,
} from "../recording/format.ts";

interface Batch {
  readonly entries: Int32Array;
  readonly results: Int32Array;
  readonly tiers: Int32Array;
  status: number;
  tag: number;
  job: number;
  count: number;
  operation: number;
  epoch: number;
  microseconds: number;
}

/** An engine channel that answers as the recorded one did, without any engine, and hands on what is submitted. */
export class ReplayChannel implements EngineChannel {
  readonly batchSlots: number;
  readonly keysPerBatchMax: number;
  readonly #batches: Batch[];
  readonly #answer: (kind: number) => readonly (number | TableChanges)[];
  readonly #give: (output: RecordedOutput) => void;

  constructor(
    shape: { readonly batchSlots: number; readonly keysPerBatchMax: number },
    answer: (kind: number) => readonly (number | TableChanges)[],
    give: (output: RecordedOutput) => void,
  ) {
    this.batchSlots = shape.batchSlots;
    this.keysPerBatchMax = shape.keysPerBatchMax;
    this.#answer = answer;
    this.#give = give;
    this.#batches = Array.from({ length: shape.batchSlots }, () => ({
      entries: new Int32Array(shape.keysPerBatchMax * ENTRY_WORDS),
      results: new Int32Array(shape.keysPerBatchMax),
      tiers: new Int32Array(shape.keysPerBatchMax),
      status: 0,
      tag: 0,
      job: 0,
      count: 0,
      operation: 0,
      epoch: 0,
      microseconds: 0,
    }));
  }

  acquire(): number {
    return this.#numbers(CALL_ACQUIRE)[0]!;
  }
  entries(slot: number): Int32Array {
    return this.#batches[slot]!.entries;
  }
  results(slot: number): Int32Array {
    return this.#batches[slot]!.results;
  }
  tiers(slot: number): Int32Array {
    return this.#batches[slot]!.tiers;
  }
  submit(
    slot: number,
    operation: number,
    keySpaceId: number,
    count: number,
    tag: number,
    job: number,
  ): void {
    const batch = this.#batches[slot]!;
    const entries = [...batch.entries.subarray(0, count * ENTRY_WORDS)];
    this.#give(["submit", slot, operation, keySpaceId, count, tag, job, entries]);
    Object.assign(batch, { operation, count, tag, job });
  }
  poll(): number {
    const [slot, status, tag, job, count, operation, epoch, microseconds, ...words] =
      this.#numbers(CALL_POLL);
    if (slot === undefined || slot < 0) return -1;
    const batch = this.#batches[slot]!;
    Object.assign(batch, { status, tag, job, count, operation, epoch, microseconds });
    batch.results.set(words.slice(0, count));
    batch.tiers.set(words.slice(count));
    return slot;
  }
  status(slot: number): number {
    return this.#batches[slot]!.status;
  }
  tag(slot: number): number {
    return this.#batches[slot]!.tag;
  }
  job(slot: number): number {
    return this.#batches[slot]!.job;
  }
  count(slot: number): number {
    return this.#batches[slot]!.count;
  }
  operation(slot: number): number {
    return this.#batches[slot]!.operation;
  }
  epoch(slot: number): number {
    return this.#batches[slot]!.epoch;
  }
  microseconds(slot: number): number {
    return this.#batches[slot]!.microseconds;
  }
  release(slot: number): void {
    this.#give(["release", slot]);
  }
  inFlight(): number {
    return this.#numbers(CALL_IN_FLIGHT)[0]!;
  }
  forEachSubmitted(visit: (slot: number) => void): void {
    const words = this.#numbers(CALL_SUBMITTED);
    for (let at = 0; at < words.length; at += 3) {
      const [slot = 0, job = 0, epoch = 0] = words.slice(at, at + 3);
      Object.assign(this.#batches[slot]!, { job, epoch });
      visit(slot);
    }
  }

  #numbers(kind: number): number[] {
    return this.#answer(kind).map(Number);
  }
}
