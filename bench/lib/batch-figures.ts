import { LoaderActor } from "../../src/actors/loader/loader-actor.ts";
import { ACTOR_SCHEDULER } from "../../src/actors/messages.ts";
import {
  ENTRY_WORDS,
  epochState,
  JOB_BLOCK_PAGE,
  JOB_CHUNK_FIRST,
  JOB_CHUNKS,
  JOB_DEADLINE_MS,
  JOB_GENERATION,
  JOB_HASH_PAGE,
  JOB_KIND,
  JOB_KIND_LOAD,
  JOB_LIVE_WORD,
  JOB_SLOT,
  JOB_STATE_NEW,
  JOB_STATE_WORD,
  REQUEST_HASH_PAGE,
  TIER_MEMORY,
} from "../../src/blocks/layout.ts";
import { PageAllocator } from "../../src/blocks/page-arena.ts";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import type { NativeBinding } from "../../src/native/binding.ts";
import type { EngineChannel } from "../../src/store/engine.ts";
import { median, type Report } from "./report.ts";
import { BenchTables } from "./scheduler-world.ts";
import { hashPrompt } from "./stand-ins.ts";
import { uniquePrompt } from "./step-phases.ts";

const KEYS = 1000;
const BLOCK_SIZE = 16;
const BLOCK_BYTES = 4096;
const ROUNDS = 1000;
const WARM_UP_ROUNDS = 200;
const JOB = 0;

/** One step of the real loader per round: a job of 1,000 blocks becomes one get batch; a second step takes its results. */
export function measureBatches(native: NativeBinding, report: Report): void {
  const shared = new BenchTables(native, {
    requestSlots: 1,
    jobSlots: 1,
    tokensPerRequestMax: KEYS * BLOCK_SIZE,
    tokensMax: KEYS * BLOCK_SIZE,
    hashBlockSize: BLOCK_SIZE,
    hashLookaheadTokens: 0,
    extraEncoding: "pickle",
    blockSize: BLOCK_SIZE,
    groups: 1,
    blockCount: KEYS + 1,
    stepSequencesMax: 0,
  });
  writeJob(shared);
  const { tables, mailboxes } = shared;
  const engine = new IdleEngine();
  const context = shared.contextWith(engine);
  const group = { kind: "full" as const, spanTokens: BLOCK_SIZE };
  const rules = hitRules({ groups: [group], hashBlockSize: BLOCK_SIZE });
  const worker = {
    keySpaceId: 0,
    tensorParallelRank: 0,
    ownPrefixOfGroup: [0],
    ownPrefixesOfGroup: [[0]],
    firstValueOfGroup: [0],
    bytesOfGroup: [BLOCK_BYTES],
    bytesOfValue: [BLOCK_BYTES],
    lookupPrefixesOfGroup: [[0]],
    putStepOfGroup: [1],
    putPhaseOfGroup: [0],
  };
  const loader = new LoaderActor({ tables, workers: [worker], rules });
  const building: number[] = [];
  const taking: number[] = [];
  let announced = true;
  const message = { kind: "load", job: JOB, ticket: 0, worker: 0 } as const;
  const inbox = { next: () => (announced ? ((announced = false), message) : null) };
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
    announced = true;
    const state = tables.job(JOB) + JOB_STATE_WORD;
    Atomics.store(tables.jobs, state, epochState(0, JOB_STATE_NEW));
    const start = native.monotonicNanoseconds();
    loader.step(inbox, tables, context);
    const submitted = native.monotonicNanoseconds();
    engine.complete();
    const completed = native.monotonicNanoseconds();
    loader.step(inbox, tables, context);
    const end = native.monotonicNanoseconds();
    const done = mailboxes[ACTOR_SCHEDULER]!.pop();
    if (done?.kind !== "loadDone" || done.memoryBlocks !== KEYS)
      throw new Error(`the loader answers ${JSON.stringify(done)}`);
    if (round < WARM_UP_ROUNDS) continue;
    building.push(submitted - start);
    taking.push(end - completed);
  }
  report.figure("building a get batch of 1,000 keys", median(building) / 1e3, "us");
  report.figure("  a key", median(building) / KEYS, "ns");
  report.figure("taking the results of 1,000 keys", median(taking) / 1e3, "us");
}

/** A live request with hashed blocks, and the record of a load of all of them. */
function writeJob(shared: BenchTables): void {
  const { tables, slots, context } = shared;
  const added = slots.addRequest({
    tokens: uniquePrompt(KEYS * BLOCK_SIZE),
    tokensMax: KEYS * BLOCK_SIZE,
  });
  if (!added.ok) throw new Error(`the bench's tables are too small: ${added.remedy}`);
  hashPrompt(tables, added.slot, context.hashBlocks);
  const blockPage = new PageAllocator(tables.blocks).allocate(KEYS);
  for (let index = 0; index < KEYS; index++) tables.blocks.set(blockPage, index, 1 + index);
  const { jobs } = tables;
  const at = tables.job(JOB);
  jobs[at + JOB_KIND] = JOB_KIND_LOAD;
  jobs[at + JOB_SLOT] = added.slot;
  jobs[at + JOB_GENERATION] = added.generation;
  jobs[at + JOB_CHUNK_FIRST] = 0;
  jobs[at + JOB_CHUNKS] = KEYS;
  jobs[at + JOB_HASH_PAGE] = tables.requests[tables.request(added.slot) + REQUEST_HASH_PAGE]!;
  jobs[at + JOB_DEADLINE_MS] = 1_000_000;
  jobs[at + JOB_BLOCK_PAGE] = blockPage;
  Atomics.store(jobs, at + JOB_LIVE_WORD, 1);
}

/** One batch slot; moves nothing and says that everything arrived. */
class IdleEngine implements EngineChannel {
  readonly batchSlots = 1;
  readonly keysPerBatchMax = KEYS;
  readonly #entries = new Int32Array(KEYS * ENTRY_WORDS);
  readonly #results = new Int32Array(KEYS).fill(BLOCK_BYTES);
  readonly #tiers = new Int32Array(KEYS).fill(TIER_MEMORY);
  readonly #submitted = { operation: 0, count: 0, tag: 0, job: 0 };
  #completed = false;
  #inFlight = 0;
  #free = true;

  complete(): void {
    const { count } = this.#submitted;
    if (this.#inFlight !== 1 || count !== KEYS)
      throw new Error(`a batch of ${count} keys is there`);
    this.#completed = true;
  }

  acquire(): number {
    if (!this.#free) return -1;
    this.#free = false;
    return 0;
  }
  entries(): Int32Array {
    return this.#entries;
  }
  results(): Int32Array {
    return this.#results;
  }
  tiers(): Int32Array {
    return this.#tiers;
  }
  submit(
    _slot: number,
    operation: number,
    _keySpaceId: number,
    count: number,
    tag: number,
    job: number,
  ): void {
    Object.assign(this.#submitted, { operation, count, tag, job });
    this.#inFlight = 1;
  }
  poll(): number {
    if (!this.#completed) return -1;
    this.#completed = false;
    this.#inFlight = 0;
    return 0;
  }
  status(): number {
    return 0;
  }
  tag(): number {
    return this.#submitted.tag;
  }
  job(): number {
    return this.#submitted.job;
  }
  count(): number {
    return this.#submitted.count;
  }
  operation(): number {
    return this.#submitted.operation;
  }
  epoch(): number {
    return 1;
  }
  microseconds(): number {
    return 0;
  }
  release(): void {
    this.#free = true;
  }
  inFlight(): number {
    return this.#inFlight;
  }
  forEachSubmitted(): void {
    // Nothing of a predecessor is ever in flight here.
  }
}
