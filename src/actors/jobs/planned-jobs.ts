/**
 * Runs the rules of `connector/worker/` (generators of pool requests) under an actor: a request goes out in as many batches as it
 * needs, their answers are gathered, and the rule goes on with them.
 */
import {
  ENTRY_BLOCK,
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_PREFIX,
  ENTRY_WORDS,
  OPERATION_EXISTS,
  OPERATION_GET,
  OPERATION_PUT,
} from "../../blocks/layout.ts";
import type { StoreJob, StoreRequest } from "../../connector/worker/store-requests.ts";
import { EngineCode, type EngineChannel } from "../../store/engine.ts";
import type { WorkerKeySpace } from "../../store/key-spaces.ts";
import { OUTCOME_HIT } from "../messages.ts";
import type { JobItems } from "./job-items.ts";
import { keyCode } from "./outcomes.ts";
import type { HashRows } from "./planned-rows.ts";

const OPERATIONS = { exists: OPERATION_EXISTS, put: OPERATION_PUT, get: OPERATION_GET } as const;

interface Run<End> {
  readonly steps: StoreJob<End>;
  readonly hashRows: HashRows;
  request: StoreRequest | null;
  /** Results by key of the request: those not sent count as failed. */
  answer: Int32Array;
  /** Keys sent, and of these those that are not back. */
  sent: number;
  outstanding: number;
  /** The rest of the request is not sent any more. */
  cut: boolean;
  /** A batch failed as a whole, or keys were not sent. */
  broken: boolean;
  /** Why nothing more is sent; OUTCOME_HIT: it goes on. */
  givenUp: number;
  /** Keys asked for: those of puts were asked for before. */
  wanted: number;
  end: End | null;
}

export class PlannedJobs<End> {
  readonly #items: JobItems;
  readonly #workers: readonly WorkerKeySpace[];
  readonly #runs: (Run<End> | null)[];
  /** Per batch slot, grown on demand: number of its first key in the request. */
  #firstKey = new Int32Array(0);

  constructor(items: JobItems, workers: readonly WorkerKeySpace[]) {
    this.#items = items;
    this.#workers = workers;
    this.#runs = Array.from({ length: items.count }, () => null);
  }

  /** Runs the rule up to its first request. */
  begin(item: number, steps: StoreJob<End>, hashRows: HashRows): void {
    const run: Run<End> = {
      steps,
      hashRows,
      request: null,
      answer: new Int32Array(0),
      sent: 0,
      outstanding: 0,
      cut: false,
      broken: false,
      givenUp: OUTCOME_HIT,
      wanted: 0,
      end: null,
    };
    this.#runs[item] = run;
    this.#take(item, run, steps.next());
  }

  /** There is no run of the item any more. */
  forget(item: number): void {
    this.#runs[item] = null;
  }

  hasMore(item: number): boolean {
    const run = this.#runs[item];
    if (!run || run.request === null) return false;
    return !run.cut && run.sent < run.answer.length;
  }

  isDone(item: number): boolean {
    const run = this.#runs[item];
    return !run || run.request === null;
  }

  /** What the rule found; null when it was not run. */
  end(item: number): End | null {
    return this.#runs[item]?.end ?? null;
  }

  wantedKeys(item: number): number {
    return this.#runs[item]?.wanted ?? 0;
  }

  /** Fills the batch with the next keys of the request and submits it. Returns how many; 0 when there were none left. */
  submitNext(item: number, batch: number, engine: EngineChannel): number {
    const run = this.#runs[item];
    if (!run?.request || !this.hasMore(item)) return 0;
    const { entries, operation } = run.request;
    const worker = this.#workers[this.#items.worker(item)]!;
    const count = Math.min(engine.keysPerBatchMax, run.answer.length - run.sent);
    const words = engine.entries(batch);
    for (let index = 0; index < count; index++) {
      const from = (run.sent + index) * ENTRY_WORDS;
      const to = index * ENTRY_WORDS;
      const group = entries[from + ENTRY_GROUP]!;
      const shard = entries[from + ENTRY_PREFIX]!;
      words[to + ENTRY_GROUP] = worker.firstValueOfGroup[group]! + shard;
      words[to + ENTRY_PREFIX] = worker.ownPrefixesOfGroup[group]![shard]!;
      words[to + ENTRY_BLOCK] = entries[from + ENTRY_BLOCK]!;
      words[to + ENTRY_HASH_ROW] = run.hashRows.row(entries[from + ENTRY_HASH_ROW]!);
    }
    this.#remember(batch, run.sent, engine.batchSlots);
    run.sent += count;
    run.outstanding++;
    engine.submit(batch, OPERATIONS[operation], worker.keySpaceId, count, item, item);
    return count;
  }

  /** Takes the answers of one of the item's batches. With the last one, the rule goes on. */
  completed(item: number, batch: number, engine: EngineChannel): void {
    const run = this.#runs[item];
    if (!run) return;
    const status = engine.status(batch);
    const count = engine.count(batch);
    const results = engine.results(batch);
    const from = this.#firstKey[batch]!;
    for (let index = 0; index < count; index++)
      run.answer[from + index] = keyCode(status, results[index]!);
    if (status < 0) this.#break(run);
    run.outstanding--;
    this.#settle(item, run);
  }

  /** The request cannot succeed any more: what of it is not sent counts as failed. */
  cut(item: number): void {
    const run = this.#runs[item];
    if (run?.request && run.sent < run.answer.length) this.#break(run);
  }

  /**
   * Nothing more is sent: neither the rest of the request nor another one. What is in flight is awaited, and when everything has
   * been sent the job may still end well.
   */
  giveUp(item: number, outcome: number): void {
    const run = this.#runs[item];
    if (!run || run.givenUp !== OUTCOME_HIT || this.isDone(item)) return;
    run.givenUp = outcome;
    if (this.hasMore(item)) this.#items.fail(item, outcome);
    this.cut(item);
    this.#settle(item, run);
  }

  #break(run: Run<End>): void {
    run.cut = true;
    run.broken = true;
  }

  #settle(item: number, run: Run<End>): void {
    if (run.request === null || run.outstanding > 0 || this.hasMore(item)) return;
    // Which of the keys are there must be known of all of them.
    const unknown = run.broken && run.request.operation === "exists";
    this.#take(item, run, run.steps.next(unknown ? null : run.answer));
  }

  #take(item: number, run: Run<End>, first: IteratorResult<StoreRequest, End>): void {
    let step = first;
    while (step.done !== true && run.givenUp !== OUTCOME_HIT) {
      this.#items.fail(item, run.givenUp);
      step = run.steps.next(null);
    }
    if (step.done === true) {
      run.request = null;
      run.end = step.value;
      return;
    }
    const request = step.value;
    const keys = request.entries.length / ENTRY_WORDS;
    run.request = request;
    run.answer = new Int32Array(keys).fill(EngineCode.ENGINE_ERROR);
    run.sent = 0;
    run.cut = false;
    run.broken = false;
    if (request.operation !== "put") run.wanted += keys;
  }

  #remember(batch: number, key: number, batchSlots: number): void {
    if (this.#firstKey.length < batchSlots) this.#firstKey = new Int32Array(batchSlots);
    this.#firstKey[batch] = key;
  }
}
