import {
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_PREFIX,
  ENTRY_WORDS,
  HASH_STRIDE_WORDS,
  JOB_KIND_LOAD,
  JOB_STATE_NEW,
  JOB_TICKET,
  NONE,
  REQUEST_LOADS_IN_FLIGHT,
  TIER_DISK,
  TIER_MASK,
  TIER_UNKNOWN,
} from "../../blocks/layout.ts";
import type { PageArena } from "../../blocks/page-arena.ts";
import { EngineCode, type EngineChannel } from "../../store/engine.ts";
import { COUNTERS, STORE_LOAD_GET } from "../../trace/counters.ts";
import { JobActor, type JobActorOptions } from "../jobs/job-actor.ts";
import { keyCode, outcomeOfCode } from "../jobs/outcomes.ts";
import { reportKibibytes, reportMicroseconds } from "../jobs/report-units.ts";
import { countValues } from "../jobs/store-metrics.ts";
import { OUTCOME_CANCELLED, type LoadDone, type Message } from "../messages.ts";
import type { ActorContext } from "../step.ts";
import type { MismatchWords } from "../mismatch-words.ts";
import type { LoadStaging, LoadWork } from "./load-work.ts";
import { PlannedLoads } from "./planned-loads.ts";
import { mismatchText, SizeEvidence } from "./size-evidence.ts";
import { TierSummary } from "./tier-summary.ts";
import { UniformLoads } from "./uniform-loads.ts";
import { ValueChecks } from "./value-checks.ts";

export interface LoaderOptions extends JobActorOptions {
  /** Absent: the pool has no disk tier. */
  readonly staging?: LoadStaging | undefined;
  /** Says of each batch how much came from memory and from disk. */
  readonly tierLog?: boolean;
  /** Told when values of another size lie under our keys. */
  readonly mismatch?: Pick<MismatchWords, "publish"> | undefined;
}

export interface LoaderCounters {
  keys: number;
  failedKeys: number;
  memoryBlocks: number;
  diskBlocks: number;
  bytes: number;
  cancelledJobs: number;
  wrongSizes: number;
}

/**
 * Loads blocks from the pool into KV memory, in place. A load that fails anywhere reports its first bad chunk and everything
 * behind it counts as not loaded (vLLM leaves later sub-batches out of its report); `loadDone` always comes, after the engine
 * has let go of all blocks of the job.
 */
export class LoaderActor extends JobActor {
  readonly counters: LoaderCounters = {
    keys: 0,
    failedKeys: 0,
    memoryBlocks: 0,
    diskBlocks: 0,
    bytes: 0,
    cancelledJobs: 0,
    wrongSizes: 0,
  };
  readonly #loads: LoadWork;
  readonly #staging: LoadStaging | undefined;
  readonly #tiers = new TierSummary();
  readonly #sizes = new SizeEvidence();
  readonly #mismatch: LoaderOptions["mismatch"];
  readonly #hashes: PageArena;
  readonly #checks: ValueChecks;
  readonly #tierLog: boolean;
  readonly #memoryBlocks: Int32Array;
  readonly #diskBlocks: Int32Array;

  constructor(options: LoaderOptions) {
    const { tables, workers, rules, staging } = options;
    super(options, { kind: JOB_KIND_LOAD, gaugeWord: REQUEST_LOADS_IN_FLIGHT, message: "load" });
    const budget = staging?.budget ?? null;
    this.#loads = rules.uniform
      ? new UniformLoads(tables, this.items, workers, budget)
      : new PlannedLoads(tables, this.items, workers, rules, budget);
    this.#staging = staging;
    this.#mismatch = options.mismatch;
    this.#hashes = tables.hashes;
    this.#checks = new ValueChecks(this.items.count);
    this.#tierLog = options.tierLog ?? false;
    this.#memoryBlocks = new Int32Array(this.items.count);
    this.#diskBlocks = new Int32Array(this.items.count);
  }

  begin(item: number): void {
    const { items } = this;
    this.#memoryBlocks[item] = 0;
    this.#diskBlocks[item] = 0;
    const stageable = this.#loads.begin(item);
    this.#checks.begin(item, this.#loads.tokens(item), this.#loads.keys(item));
    // A predecessor has recorded the begin of an orphan.
    if (items.orphan[item] === 1) return;
    this.trace("loadBegin", item, items.job(item), this.#loads.keys(item));
    if (stageable) return;
    this.log?.warn(
      {
        slot: items.slot(item),
        generation: items.generation(item),
        stagingBytes: this.#staging?.budget.rawBytes,
      },
      "a load is skipped: one of its values is larger than the staging buffer of the pool's disk tier",
    );
  }

  hasMore(item: number): boolean {
    return this.#loads.hasMore(item);
  }
  isDone(item: number): boolean {
    return this.#loads.isDone(item);
  }
  override holdsBack(batchesInFlight: number): boolean {
    return this.#staging !== undefined && batchesInFlight >= this.#staging.readsMax;
  }

  submitNext(item: number, batch: number, context: ActorContext): boolean {
    const keys = this.#loads.submitNext(item, batch, context.engine);
    if (keys === 0) return false;
    this.trace("getSubmitted", item, keys, batch);
    return true;
  }

  completed(item: number, batch: number, context: ActorContext): boolean {
    const { engine } = context;
    this.#count(item, batch, engine);
    this.#lookAtSizes(item, batch, context);
    this.trace("getDone", item, batch, engine.status(batch));
    this.#loads.completed(item, batch, engine);
    return false;
  }

  giveUp(item: number, outcome: number): void {
    this.#loads.giveUp(item, outcome);
  }

  report(item: number, context: ActorContext): LoadDone {
    const { items } = this;
    const now = context.nowMs();
    const outcome = items.outcome[item]!;
    const badChunk = this.#loads.badChunk(item);
    this.metrics?.add(COUNTERS.loads + outcome, 1);
    this.#checks.count(item, this.metrics);
    this.trace("loadEnd", item, outcome, badChunk);
    return {
      kind: "loadDone",
      job: items.job(item),
      ticket: items.word(item, JOB_TICKET),
      worker: items.worker(item),
      outcome,
      badChunk,
      memoryBlocks: this.#memoryBlocks[item]!,
      diskBlocks: this.#diskBlocks[item]!,
      kibibytes: reportKibibytes(items.bytes[item]!),
      microseconds: reportMicroseconds(items.beganMs[item]!, now),
    };
  }

  override receive(message: Message, context: ActorContext): boolean {
    if (message.kind !== "cancelLoad") return false;
    const { items } = this;
    const { job, ticket } = message;
    if (!items.knownAs(job, ticket)) return false;
    this.counters.cancelledJobs++;
    // Live, announced as far as the sender knows, and never seen here: its message died with a predecessor.
    const lost = items.state(job) === JOB_STATE_NEW;
    for (let worker = 0; worker < items.workers; worker++) {
      const item = items.item(job, worker);
      if (lost) this.runner.refuse(item, OUTCOME_CANCELLED, context);
      else if (items.active[item] === 1) this.runner.giveUp(item, OUTCOME_CANCELLED, context);
    }
    return true;
  }

  /** Entries of a batch stay as they were sent until its slot is used anew. */
  #lookAtSizes(item: number, batch: number, { engine, log, trace }: ActorContext): void {
    const { items } = this;
    if (items.orphan[item] === 1) return;
    const { bytesOfValue } = this.worker(item);
    const [entries, results, tiers] = [
      engine.entries(batch),
      engine.results(batch),
      engine.tiers(batch),
    ];
    const count = engine.count(batch);
    for (let index = 0; index < count; index++) {
      const code = results[index]!;
      const at = index * ENTRY_WORDS;
      const wantedBytes = bytesOfValue[entries[at + ENTRY_GROUP]!]!;
      if (code >= 0) this.#sizes.right(wantedBytes);
      if (code !== EngineCode.BUFFER_SMALLER && code !== EngineCode.BUFFER_LARGER) continue;
      this.counters.wrongSizes++;
      const foundBytes = tiers[index]!;
      if (foundBytes === TIER_UNKNOWN) continue;
      const found = this.#sizes.wrong({
        wantedBytes,
        foundBytes,
        prefix: entries[at + ENTRY_PREFIX]!,
        digest: this.#digest(entries[at + ENTRY_HASH_ROW]!),
        slot: items.slot(item),
        generation: items.generation(item),
      });
      if (found === null) continue;
      this.#mismatch?.publish(found);
      trace.record("poolClosed", NONE, NONE, 1, foundBytes);
      log.error({ wantedBytes, foundBytes }, mismatchText(found));
    }
  }

  /** A copy: rows are used anew when their requests have ended. */
  #digest(hashRow: number): Int32Array {
    const { entriesPerPage, words } = this.#hashes;
    const offset = this.#hashes.offset(
      Math.floor(hashRow / entriesPerPage),
      hashRow % entriesPerPage,
    );
    return words.slice(offset, offset + HASH_STRIDE_WORDS);
  }

  #count(item: number, batch: number, engine: EngineChannel): void {
    const { items, counters } = this;
    const status = engine.status(batch);
    const count = engine.count(batch);
    const results = engine.results(batch);
    const tiers = engine.tiers(batch);
    this.#tiers.clear();
    this.#checks.beginBatch();
    let bytes = 0;
    let failed = 0;
    let disk = 0;
    for (let index = 0; index < count; index++) {
      const code = keyCode(status, results[index]!);
      // Of a value of another size the word tells how large it is.
      const tier = code < 0 ? tiers[index]! : tiers[index]! & TIER_MASK;
      this.#tiers.add(tier, code);
      this.#checks.add(item, code, tiers[index]!);
      if (code >= 0) {
        bytes += code;
        if (tier === TIER_DISK) disk++;
        continue;
      }
      failed++;
      items.fail(item, outcomeOfCode(code));
    }
    const memory = count - failed - disk;
    items.bytes[item]! += bytes;
    this.#diskBlocks[item]! += disk;
    this.#memoryBlocks[item]! += memory;
    counters.keys += count;
    counters.failedKeys += failed;
    counters.diskBlocks += disk;
    counters.memoryBlocks += memory;
    counters.bytes += bytes;
    countValues(this.metrics, engine, batch, STORE_LOAD_GET, failed, this.worker(item));
    this.#tiers.count(this.metrics);
    this.#tellRefusals(item);
    if (this.#tierLog) this.#tiers.write(this.log, items.slot(item), items.generation(item));
  }

  #tellRefusals(item: number): void {
    const { items } = this;
    this.#checks.eachRefusal((code, keys) => {
      this.trace("valuesRefused", item, keys, code);
      this.log?.warn(
        { slot: items.slot(item), generation: items.generation(item), keys, code },
        REFUSED[code] ?? "values of the pool are not used",
      );
    });
  }
}

const REFUSED: Readonly<Record<number, string>> = {
  [EngineCode.CHECKSUM_MISMATCH]:
    "values of the pool do not fit their checksums and are not used: they are removed once no reader has leased them, and saved anew",
  [EngineCode.REMOVED_UNDER_READ]:
    "values of the pool were removed while they were read and are not used",
  [EngineCode.VALUE_UNREADABLE]:
    "the pool cannot read values that it has: they are removed once no reader has leased them, and saved anew",
};
