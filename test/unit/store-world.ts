import { EventQueue } from "../../src/actors/hosts/simulated/event-queue.ts";
import { SeededRandom } from "../../src/actors/hosts/simulated/random.ts";
import type { Message } from "../../src/actors/messages.ts";
import type { Actor, ActorContext } from "../../src/actors/step.ts";
import * as layout from "../../src/blocks/layout.ts";
import { PageAllocator } from "../../src/blocks/page-arena.ts";
import { RequestSlots } from "../../src/blocks/request-slots.ts";
import { createTableBuffers, Tables, type TableDimensions } from "../../src/blocks/tables.ts";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import type { HitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { BlockMemory } from "../../src/store/block-memory.ts";
import type { EngineChannel } from "../../src/store/engine.ts";
import type { EngineFaults } from "../../src/store/fault-engine.ts";
import type { KeySpacePlan, WorkerKeySpace } from "../../src/store/key-spaces.ts";
import { keyText, SimulatedChannel, type SimulatedKeySpace } from "../../src/store/model-engine.ts";
import { ModelPool } from "../../src/store/model-pool.ts";
import { NO_TRACE, type TraceWriter } from "../../src/trace/events.ts";
import { BLOCK_BYTES, blockSegments, planKeySpaces } from "./world-key-spaces.ts";

export { BLOCK_BYTES };

export interface WorldOptions {
  readonly dimensions?: Partial<TableDimensions>;
  readonly shape?: layout.ChannelShape;
  readonly poolBytesMax?: number;
  readonly poolEvicts?: boolean;
  readonly seed?: number;
  readonly delayMsMax?: number;
  /** Ranks of this process; each has its own prefix. */
  readonly ranks?: number;
  readonly putStep?: number;
  readonly trace?: TraceWriter;
  /** What a hit needs; default: every block of every group. */
  readonly rules?: HitRules;
  /** Equal parts of a block that are stored under keys of their own; default 1. */
  readonly valuesPerBlock?: number;
}

/** Real tables, the simulated engine on a virtual clock, and a context that records what the actor sends. */
export class ActorWorld {
  readonly clock = new EventQueue();
  readonly random: SeededRandom;
  readonly tables: Tables;
  readonly slots: RequestSlots;
  readonly memory: Uint8Array;
  readonly pool: ModelPool;
  readonly plans: readonly KeySpacePlan[];
  readonly workers: readonly WorkerKeySpace[];
  readonly keySpaces: readonly SimulatedKeySpace[];
  readonly channel: SimulatedChannel;
  readonly rules: HitRules;
  readonly sent: Message[] = [];
  readonly inbox: Message[] = [];
  readonly rowPages: PageAllocator;
  /** Replaced by tests; asked by the channel at every moment. */
  faults: Partial<EngineFaults> = {};
  /** Called instead of hashing when set. */
  hashed: [from: number, to: number][] = [];
  dead = false;
  /** What actors log as information or warning. */
  readonly logged: { readonly fields: object; readonly text: string }[] = [];
  readonly #trace: TraceWriter;
  #nextHashPage = 0;

  constructor(options: WorldOptions = {}) {
    this.random = new SeededRandom(options.seed ?? 1);
    const dimensions: TableDimensions = {
      requestSlots: 8,
      jobSlots: 16,
      tokensPerRequestMax: 4096,
      tokensMax: 16_384,
      hashBlockSize: 4,
      hashLookaheadTokens: 0,
      extraEncoding: "pickle",
      blockSize: 4,
      groups: 1,
      blockCount: 256,
      stepSequencesMax: 0,
      ...options.dimensions,
    };
    this.#trace = options.trace ?? NO_TRACE;
    this.tables = new Tables(createTableBuffers(dimensions));
    this.slots = new RequestSlots(this.tables);
    this.rowPages = new PageAllocator(this.tables.blocks);
    const { groups, blockCount } = dimensions;
    this.rules = options.rules ?? uniformRules(dimensions);
    this.memory = new Uint8Array(groups * blockCount * BLOCK_BYTES);
    const random = (): number => this.random.next();
    this.pool = new ModelPool({
      bytesMax: options.poolBytesMax ?? 1 << 20,
      random,
      evicts: options.poolEvicts ?? true,
    });
    const ranks = options.ranks ?? 1;
    const { putStep, valuesPerBlock = 1 } = options;
    const segments = blockSegments(groups, blockCount, valuesPerBlock);
    this.plans = planKeySpaces(segments, ranks, putStep);
    this.workers = this.plans.map((plan, keySpaceId) => ({ keySpaceId, ...plan }));
    const groupsMemory = segments
      .flat()
      .map((rules) => new BlockMemory(this.memory, rules, blockCount));
    this.keySpaces = this.plans.map(({ prefixes }) => ({
      prefixes,
      hashBytes: 32,
      hashes: this.tables.hashes,
      groups: groupsMemory,
    }));
    this.channel = new SimulatedChannel({
      shape: options.shape ?? { batchSlots: 4, keysPerBatchMax: 8 },
      pool: this.pool,
      keySpaces: this.keySpaces,
      schedule: (delayMs, run) => this.clock.schedule(delayMs, run),
      random,
      wake: () => undefined,
      delayMsMax: options.delayMsMax ?? 5,
      faults: {
        slowness: () => this.faults.slowness?.() ?? 1,
        batchStatus: (operation) => this.faults.batchStatus?.(operation) ?? 0,
        keyResult: (operation) => this.faults.keyResult?.(operation) ?? 0,
        evicts: () => this.faults.evicts?.() ?? false,
      },
    });
  }

  /** A context over `engine` (default: attached anew under `epoch`). */
  context(epoch = 1, engine: EngineChannel = this.channel.attach(epoch)): ActorContext {
    return {
      epoch,
      nowMs: () => this.clock.nowMs,
      random: () => this.random.next(),
      log: {
        debug: () => undefined,
        info: (fields, text) => void this.logged.push({ fields, text }),
        warn: (fields, text) => void this.logged.push({ fields, text }),
        error: () => undefined,
      },
      trace: this.#trace,
      engine,
      send: (_actor, message) => void this.sent.push(message),
      room: () => 1000,
      readLookup: (slot) =>
        Atomics.load(this.tables.requests, this.tables.request(slot) + layout.REQUEST_LOOKUP_WORD),
      hashBlocks: (_tokens, hashPage, _extras, from, to) => {
        this.hashed.push([from, to]);
        for (let block = from; block < to; block++) this.writeHash(hashPage, block, block);
        return to - from;
      },
    };
  }

  /** A digest that tells chunk and row of which request it is. */
  writeHash(hashPage: number, block: number, mark: number): void {
    const at = this.tables.hashes.offset(hashPage, block);
    this.tables.hashes.words.fill(0, at, at + 8);
    this.tables.hashes.words[at] = mark + 1;
    this.tables.hashes.words[at + 1] = hashPage + 1;
  }

  key(rank: number, group: number, hashPage: number, block: number): string {
    const space = this.keySpaces[rank]!;
    const prefix = this.workers[rank]!.ownPrefixOfGroup[group]!;
    return keyText(space, prefix, this.tables.hashes.row(hashPage, block)) ?? "";
  }

  /** One step of the actor with everything in `inbox`. */
  step(actor: Actor, context: ActorContext): number {
    return actor.step({ next: () => this.inbox.shift() ?? null }, this.tables, context);
  }

  /** Steps the actor over virtual time until nothing is due any more, or until `untilMs`. */
  run(actor: Actor, context: ActorContext, untilMs = Infinity): void {
    for (let turns = 0; turns < 10_000; turns++) {
      this.clock.runDue();
      const wanted = this.step(actor, context);
      if (wanted <= this.clock.nowMs) continue;
      const next = Math.min(this.clock.nextDueMs(), wanted);
      if (next > untilMs || next === Infinity) {
        if (untilMs !== Infinity) this.clock.nowMs = Math.max(this.clock.nowMs, untilMs);
        return;
      }
      this.clock.nowMs = next;
    }
    throw new Error("the actor does not come to rest");
  }

  block(group: number, block: number): Uint8Array {
    const start = (group * this.tables.dimensions.blockCount + block) * BLOCK_BYTES;
    return this.memory.subarray(start, start + BLOCK_BYTES);
  }

  /** A job record like the scheduler side writes it; block ids per group. Returns the hash row's first page. */
  writeJob(options: {
    readonly job: number;
    readonly kind: number;
    readonly slot?: number;
    readonly generation?: number;
    /** REQUEST_LIFE; as the generation when it is left out. */
    readonly life?: number;
    readonly first?: number;
    readonly blocks: readonly (readonly number[])[];
    readonly deadlineMs?: number;
    /** The hash row of another job of the same request. */
    readonly hashPage?: number;
    /** Of a planned job; rows start at chunk 0 then. Default: what the chunks say. */
    readonly planned?: {
      readonly tokens: number;
      readonly hashes: number;
      readonly localTokens?: number;
      readonly tailTokens?: readonly number[];
      readonly promptTokens?: number | null;
      readonly boundaryPuts?: readonly (readonly [group: number, block: number, tokens: number])[];
    };
  }): number {
    const { job, kind, blocks, planned } = options;
    const { jobs, hashes, dimensions } = this.tables;
    const at = this.tables.job(job);
    const chunks = blocks[0]?.length ?? 0;
    const first = options.first ?? 0;
    const perBlock = dimensions.blockSize / dimensions.hashBlockSize;
    const hashBlocks = planned?.hashes ?? (first + chunks) * perBlock;
    const hashPage = options.hashPage ?? this.#nextHashPage;
    if (options.hashPage === undefined) {
      const pages = Math.max(1, Math.ceil(hashBlocks / hashes.entriesPerPage));
      for (let page = 0; page < pages; page++) {
        const next = page === pages - 1 ? layout.NONE : hashPage + page + 1;
        hashes.words[(hashPage + page) * hashes.pageWords] = next;
      }
      this.#nextHashPage += pages;
    }
    for (let block = 0; block < hashBlocks; block++) this.writeHash(hashPage, block, block);
    for (const [group, ids] of blocks.entries()) {
      const page = this.rowPages.allocate(Math.max(1, ids.length));
      ids.forEach((id, index) => this.tables.blocks.set(page, index, id));
      jobs[at + layout.JOB_BLOCK_PAGE + group] = page;
      jobs[at + layout.JOB_GROUP_BLOCKS + group] = ids.length;
      jobs[at + layout.JOB_TAIL_TOKENS + group] = planned?.tailTokens?.[group] ?? 0;
    }
    const puts = (planned?.boundaryPuts ?? []).flat();
    const boundaryPage = puts.length === 0 ? layout.NONE : this.rowPages.allocate(puts.length);
    puts.forEach((word, index) => this.tables.blocks.set(boundaryPage, index, word));
    jobs[at + layout.JOB_BOUNDARY_PAGE] = boundaryPage;
    jobs[at + layout.JOB_BOUNDARY_PUTS] = puts.length / 3;
    jobs[at + layout.JOB_PROMPT_TOKENS] = planned?.promptTokens ?? layout.NONE;
    jobs[at + layout.JOB_KIND] = kind;
    jobs[at + layout.JOB_SLOT] = options.slot ?? 0;
    jobs[at + layout.JOB_GENERATION] = options.generation ?? 1;
    jobs[at + layout.JOB_LIFE] = options.life ?? options.generation ?? 1;
    jobs[at + layout.JOB_CHUNK_FIRST] = first;
    jobs[at + layout.JOB_CHUNKS] = chunks;
    jobs[at + layout.JOB_TOKENS] = planned?.tokens ?? (first + chunks) * dimensions.blockSize;
    jobs[at + layout.JOB_LOCAL_TOKENS] = planned?.localTokens ?? first * dimensions.blockSize;
    jobs[at + layout.JOB_HASH_PAGE] = hashPage;
    jobs[at + layout.JOB_DEADLINE_MS] = options.deadlineMs ?? 1_000_000;
    jobs[at + layout.JOB_STATE_WORD] = 0;
    jobs[at + layout.JOB_LIVE_WORD] = 1;
    return hashPage;
  }

  jobState(job: number): number {
    return layout.stateOf(this.tables.jobs[this.tables.job(job) + layout.JOB_STATE_WORD]!);
  }

  /** Puts values for chunks under the keys of `rank`, each filled with a byte of its own. */
  fillPool(hashPage: number, chunks: readonly number[], rank = 0, group = 0): void {
    const perBlock = this.tables.dimensions.blockSize / this.tables.dimensions.hashBlockSize;
    for (const chunk of chunks)
      this.pool.put(
        this.key(rank, group, hashPage, (chunk + 1) * perBlock - 1),
        new Uint8Array(BLOCK_BYTES).fill(100 + chunk),
      );
  }
}

/** Rules of groups that need every block of every chunk. */
export function uniformRules(
  dimensions: Pick<TableDimensions, "groups" | "blockSize" | "hashBlockSize">,
): HitRules {
  const { groups, blockSize: spanTokens, hashBlockSize } = dimensions;
  const group = { kind: "full" as const, spanTokens };
  return hitRules({ groups: Array.from({ length: groups }, () => group), hashBlockSize });
}

export function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, index) => from + index);
}
