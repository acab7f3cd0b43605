/** An engine channel that answers from a recorded script, at once, and notes what it was asked. */
import { ENTRY_WORDS, TIER_UNKNOWN } from "../../src/blocks/layout.ts";
import type { EngineChannel } from "../../src/store/engine.ts";
import { EngineCode } from "../../src/store/engine.ts";

export interface AskedBatch {
  readonly operation: number;
  readonly entries: Int32Array;
}

interface Batch {
  readonly entries: Int32Array;
  readonly results: Int32Array;
  readonly tiers: Int32Array;
  state: "free" | "filling" | "done";
  status: number;
  tag: number;
  job: number;
  count: number;
  operation: number;
}

const BATCHES = 4;

export class ScriptedChannel implements EngineChannel {
  readonly batchSlots = BATCHES;
  readonly keysPerBatchMax = 1024;
  readonly asked: AskedBatch[] = [];
  /** Next answers: results a key, or null for a batch that fails as a whole. */
  readonly script: (readonly number[] | null)[] = [];
  readonly #answers: (entries: Int32Array) => readonly number[] | null | undefined;
  readonly #done: number[] = [];
  readonly #batches: Batch[] = Array.from({ length: BATCHES }, () => ({
    entries: new Int32Array(1024 * ENTRY_WORDS),
    results: new Int32Array(1024),
    tiers: new Int32Array(1024).fill(TIER_UNKNOWN),
    state: "free",
    status: 0,
    tag: 0,
    job: 0,
    count: 0,
    operation: 0,
  }));

  /** `answers`: results for a batch's entries, instead of the script. */
  constructor(answers?: (entries: Int32Array) => readonly number[] | null) {
    this.#answers = answers ?? (() => this.script.shift());
  }

  acquire(): number {
    const slot = this.#batches.findIndex((batch) => batch.state === "free");
    if (slot >= 0) this.#batch(slot).state = "filling";
    return slot;
  }

  submit(
    slot: number,
    operation: number,
    _keySpaceId: number,
    count: number,
    tag: number,
    job: number,
  ): void {
    const batch = this.#batch(slot);
    const entries = batch.entries.slice(0, count * ENTRY_WORDS);
    const answer = this.#answers(entries);
    this.asked.push({ operation, entries });
    // Beyond the script: the comparison of what was asked shows it.
    batch.status =
      answer === null || answer === undefined ? EngineCode.ENGINE_ERROR : EngineCode.OK;
    if (answer !== null && answer !== undefined) batch.results.set(answer);
    Object.assign(batch, { state: "done", operation, count, tag, job });
    this.#done.push(slot);
  }

  poll(): number {
    return this.#done.shift() ?? -1;
  }

  release(slot: number): void {
    this.#batch(slot).state = "free";
  }

  inFlight(): number {
    return this.#done.length;
  }

  forEachSubmitted(visit: (slot: number) => void): void {
    for (const slot of this.#done) visit(slot);
  }

  entries(slot: number): Int32Array {
    return this.#batch(slot).entries;
  }
  results(slot: number): Int32Array {
    return this.#batch(slot).results;
  }
  tiers(slot: number): Int32Array {
    return this.#batch(slot).tiers;
  }
  status(slot: number): number {
    return this.#batch(slot).status;
  }
  tag(slot: number): number {
    return this.#batch(slot).tag;
  }
  job(slot: number): number {
    return this.#batch(slot).job;
  }
  count(slot: number): number {
    return this.#batch(slot).count;
  }
  operation(slot: number): number {
    return this.#batch(slot).operation;
  }
  epoch(): number {
    return 1;
  }
  microseconds(): number {
    return 1;
  }

  #batch(slot: number): Batch {
    const batch = this.#batches[slot];
    if (batch === undefined) throw new Error(`there is no batch slot ${slot}`);
    return batch;
  }
}
