/**
 * A small world around a real scheduler: real connector sides, the simulated model whose next token is a hash of the KV bytes
 * reached through the block table, and plain stand-ins for lookup, loader and saver over a map as pool. Tests hold single
 * actors back and decide what fails, so every waiting state can be entered and looked at.
 */
import {
  ACTOR_FRONT_END,
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_MODEL,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
  type Message,
  type MessageKind,
  type MessageOf,
  OUTCOME_CANCELLED,
  OUTCOME_ENGINE_ERROR,
  OUTCOME_HIT,
} from "../../src/actors/messages.ts";
import { modelTruth, SimulatedModel } from "../../src/actors/hosts/simulated/model.ts";
import { SeededRandom } from "../../src/actors/hosts/simulated/random.ts";
import { createSchedulerMemory, type SchedulerOptions } from "../../src/actors/scheduler/core.ts";
import { SchedulerActor } from "../../src/actors/scheduler/scheduler-actor.ts";
import type { ActorContext } from "../../src/actors/step.ts";
import {
  JOB_BLOCK_PAGE,
  JOB_CHUNK_FIRST,
  JOB_CHUNKS,
  JOB_HASH_PAGE,
  JOB_STATE_DONE,
  JOB_STATE_TAKEN,
  JOB_STATE_WORD,
  LOOKUP_HIT,
  LOOKUP_MISS,
  lookupWord,
  NONE,
  REQUEST_EXTRAS_PAGE,
  REQUEST_FLAGS,
  REQUEST_GENERATION,
  REQUEST_HASH_PAGE,
  REQUEST_HASHED_BLOCKS_WORD,
  REQUEST_HIT_TOKENS,
  REQUEST_LIVE_WORD,
  REQUEST_LOGPROBS,
  REQUEST_LOOKUP_WORD,
  REQUEST_PROMPT_TOKENS,
  REQUEST_TOKEN_PAGE,
  REQUEST_TOKENS_MAX,
} from "../../src/blocks/layout.ts";
import { PageAllocator } from "../../src/blocks/page-arena.ts";
import { createTableBuffers, type TableDimensions, Tables } from "../../src/blocks/tables.ts";
import type { ConnectorSettings } from "../../src/connector/settings.ts";
import { ConnectorSides } from "../../src/connector/sides.ts";
import type { EngineChannel } from "../../src/store/engine.ts";
import { NO_TRACE } from "../../src/trace/events.ts";

export const BLOCK = 4;
export const VOCABULARY = 1000;
const KV_WORDS = 2;

export interface WorldOptions {
  readonly dimensions?: Partial<TableDimensions>;
  readonly scheduler?: Partial<SchedulerOptions>;
  readonly settings?: Partial<ConnectorSettings>;
  readonly pool?: boolean;
}

/** What the front end has of one request. */
export interface Ended {
  readonly tokens: number[];
  finished: MessageOf<"requestFinished">[];
  released: number;
}

export class World {
  readonly tables: Tables;
  readonly memory: Int32Array;
  /** Hash in hexadecimal -> KV words of the block. */
  readonly pool = new Map<string, Int32Array>();
  /** Messages for these actors stay in their queue. */
  readonly held = new Set<number>();
  readonly sent: { actor: number; message: Message }[] = [];
  nowMs = 1000;
  frontEndRoom = 1_000_000;
  /** Chunks of loads from this one on do not arrive. */
  failLoadsFrom = Infinity;
  /** So many of the next steps fail. */
  failSteps = 0;
  /** The scheduler dies at its so-many-th message, in the middle of a step; its successor starts with the next turn. */
  diesAfter = Infinity;
  scheduler!: SchedulerActor;
  sides: ConnectorSides | null = null;
  memoryOfScheduler!: ReturnType<typeof createSchedulerMemory>;
  readonly #options: WorldOptions;
  readonly #queues = new Map<number, Message[]>();
  readonly #tokenPages: PageAllocator;
  readonly #hashPages: PageAllocator;
  readonly #free: number[] = [];
  readonly #requests = new Map<string, Ended>();
  #model: SimulatedModel;
  #modelDue: (() => void)[] = [];
  #epoch = 0;
  #generation = 0;

  constructor(options: WorldOptions = {}) {
    this.#options = options;
    const dimensions: TableDimensions = {
      requestSlots: 16,
      jobSlots: 32,
      tokensPerRequestMax: 256,
      tokensMax: 16 * 256,
      hashBlockSize: BLOCK,
      blockSize: BLOCK,
      groups: 1,
      blockCount: 65,
      stepSequencesMax: 8,
      ...options.dimensions,
    };
    this.tables = new Tables(createTableBuffers(dimensions));
    this.memory = new Int32Array(dimensions.blockCount * BLOCK * KV_WORDS);
    this.#tokenPages = new PageAllocator(this.tables.tokens);
    this.#hashPages = new PageAllocator(this.tables.hashes);
    for (let slot = dimensions.requestSlots - 1; slot >= 0; slot--) this.#free.push(slot);
    this.#model = this.#newModel();
    this.startScheduler();
  }

  /** Starts the scheduler, or its successor: what the predecessor had privately is gone. */
  startScheduler(): void {
    this.#epoch++;
    const memory = createSchedulerMemory(this.tables);
    this.memoryOfScheduler = memory;
    const context = this.context();
    const settings: ConnectorSettings = {
      role: "kv_both",
      loadAsync: this.#options.scheduler?.loadAsync ?? true,
      lookupAsync: true,
      enableLookup: true,
      canSave: true,
      saveDecodeCache: false,
      lookupTimeoutMs: 1000,
      loadTimeoutMs: 30_000,
      saveTimeoutMs: 60_000,
      minLoadTokens: 0,
      loadFailurePolicy: "recompute",
      ...this.#options.settings,
    };
    this.sides =
      this.#options.pool === false
        ? null
        : new ConnectorSides({
            tables: this.tables,
            settings,
            log: context.log,
            trace: NO_TRACE,
            nowMs: () => this.nowMs,
            send: context.send,
            blockPages: memory.pages,
            pool: memory.allocator,
            ranks: 1,
            flushWakes: () => undefined,
            readLookup: context.readLookup,
            hashBlocks: context.hashBlocks,
          });
    this.scheduler = new SchedulerActor(
      {
        tables: this.tables,
        memory,
        connector: this.sides,
        endTokenIds: [],
        ...this.#options.scheduler,
      },
      context,
    );
  }

  context(): ActorContext {
    const log = {
      debug: () => undefined,
      info: () => undefined,
      warn: () => undefined,
      error: () => undefined,
    };
    return {
      epoch: this.#epoch,
      nowMs: () => this.nowMs,
      random: () => 0,
      log,
      trace: NO_TRACE,
      engine: NO_ENGINE,
      send: (actor, message) => {
        if (--this.diesAfter <= 0) throw new Death();
        this.post(actor, message);
      },
      room: () => this.frontEndRoom,
      readLookup: (slot) =>
        Atomics.load(this.tables.requests, this.tables.request(slot) + REQUEST_LOOKUP_WORD),
      hashBlocks: (tokenPage, hashPage, _extrasPage, from, to) =>
        this.#hash(tokenPage, hashPage, from, to),
    };
  }

  // --- front end ---

  add(
    prompt: readonly number[],
    outputTokens: number,
    flags = 0,
  ): { slot: number; generation: number } {
    const slot = this.#free.pop();
    if (slot === undefined) throw new Error("no slot");
    const generation = ++this.#generation;
    const record = this.tables.request(slot);
    const words = this.tables.requests;
    const tokensMax = prompt.length + outputTokens;
    words[record + REQUEST_GENERATION] = generation;
    words[record + REQUEST_PROMPT_TOKENS] = prompt.length;
    words[record + REQUEST_TOKENS_MAX] = tokensMax;
    words[record + REQUEST_TOKEN_PAGE] = this.#tokenPages.allocate(tokensMax);
    words[record + REQUEST_HASH_PAGE] = this.#hashPages.allocate(Math.ceil(tokensMax / BLOCK));
    words[record + REQUEST_EXTRAS_PAGE] = NONE;
    words[record + REQUEST_FLAGS] = flags;
    words[record + REQUEST_LOGPROBS] = NONE;
    prompt.forEach((token, index) =>
      this.tables.tokens.set(words[record + REQUEST_TOKEN_PAGE]!, index, token),
    );
    Atomics.store(words, record + REQUEST_LIVE_WORD, 1);
    this.#requests.set(`${slot}.${generation}`, { tokens: [], finished: [], released: 0 });
    this.post(ACTOR_SCHEDULER, { kind: "addRequest", slot, generation });
    return { slot, generation };
  }

  abort({ slot, generation }: { slot: number; generation: number }): void {
    this.post(ACTOR_SCHEDULER, { kind: "abortRequest", slot, generation });
  }

  ended({ slot, generation }: { slot: number; generation: number }): Ended {
    const request = this.#requests.get(`${slot}.${generation}`);
    if (request === undefined) throw new Error("unknown request");
    return request;
  }

  // --- running ---

  post(actor: number, message: Message): void {
    if (message.kind === "stepDone" && this.failSteps > 0) {
      this.failSteps--;
      message = { ...message, status: -1 };
    }
    this.sent.push({ actor, message });
    const queue = this.#queues.get(actor) ?? [];
    this.#queues.set(actor, queue);
    queue.push(message);
  }
  queued(actor: number): number {
    return this.#queues.get(actor)?.length ?? 0;
  }
  count(kind: MessageKind): number {
    return this.sent.filter(({ message }) => message.kind === kind).length;
  }

  /** One step of the scheduler and then of every actor that is not held; returns the scheduler's deadline. */
  turn(): number {
    const queue = this.#queues.get(ACTOR_SCHEDULER) ?? [];
    let deadline = Infinity;
    try {
      deadline = this.scheduler.step(
        { next: () => queue.shift() ?? null },
        this.tables,
        this.context(),
      );
    } catch (error) {
      if (!(error instanceof Death)) throw error;
      this.diesAfter = Infinity;
      this.startScheduler();
    }
    this.#serve(ACTOR_LOOKUP, (message) => this.#lookup(message));
    this.#serve(ACTOR_LOADER, (message) => this.#load(message));
    this.#serve(ACTOR_SAVER, (message) => this.#save(message));
    if (!this.held.has(ACTOR_MODEL)) this.#runModel();
    this.#serve(ACTOR_FRONT_END, (message) => this.#frontEnd(message));
    return deadline;
  }

  /** Turns until nothing is queued (but for held actors) and nothing changes. */
  settle(turnsMax = 2000): void {
    for (let turn = 0; turn < turnsMax; turn++) {
      const before = this.sent.length;
      this.turn();
      if (this.sent.length === before && this.queued(ACTOR_SCHEDULER) === 0) return;
    }
    throw new Error("does not settle");
  }

  loseQueue(actor: number): void {
    this.#queues.get(actor)?.splice(0);
  }

  /** Loses the model with whatever it computes; its successor starts with the queue as it is. */
  restartModel(): void {
    this.#modelDue = [];
    this.#model = this.#newModel();
    this.post(ACTOR_SCHEDULER, { kind: "actorRestarted", actor: ACTOR_MODEL, epoch: 2 });
  }

  /** What the model must answer. */
  truth(prompt: readonly number[], outputTokens: number): number[] {
    return modelTruth(prompt, outputTokens, VOCABULARY);
  }

  #serve(actor: number, take: (message: Message) => void): void {
    if (this.held.has(actor)) return;
    const queue = this.#queues.get(actor) ?? [];
    for (let message = queue.shift(); message !== undefined; message = queue.shift()) take(message);
  }

  #newModel(): SimulatedModel {
    return new SimulatedModel({
      memory: this.memory,
      blockSize: BLOCK,
      vocabulary: VOCABULARY,
      random: new SeededRandom(1),
      schedule: (_delayMs, run) => this.#modelDue.push(run),
      wake: () => undefined,
      stepMsMax: 0,
      failureProbability: 0,
      isCurrent: (model) => model === this.#model,
    });
  }

  #modelContext(): ActorContext {
    return { ...this.context(), send: (actor, message) => this.post(actor, message) };
  }

  /** Runs the model to the end of its queue, one step after the other. */
  #runModel(): void {
    const queue = this.#queues.get(ACTOR_MODEL) ?? [];
    do {
      let taken = false;
      const next = (): Message | null => {
        if (taken) return null;
        taken = true;
        return queue.shift() ?? null;
      };
      this.#model.step({ next }, this.tables, this.#modelContext());
      for (let run = this.#modelDue.shift(); run !== undefined; run = this.#modelDue.shift()) run();
      this.#model.step({ next: () => null }, this.tables, this.#modelContext());
    } while (queue.length > 0);
  }

  /** The model computes what is queued but its answers are lost with it. */
  computeAndLoseModel(): void {
    const queue = this.#queues.get(ACTOR_MODEL) ?? [];
    this.#model.step({ next: () => queue.shift() ?? null }, this.tables, this.#modelContext());
    this.#modelDue.shift()?.();
    this.restartModel();
  }

  #frontEnd(message: Message): void {
    if (message.kind === "tokenGenerated") {
      const { tokens } = this.ended(message);
      this.#readRow(message.slot, tokens, message.index);
      if (message.index !== tokens.length)
        throw new Error(`token ${message.index} after ${tokens.length}`);
      tokens.push(message.token);
    } else if (message.kind === "requestFinished") {
      this.#readRow(message.slot, this.ended(message).tokens, message.outputTokens);
      this.ended(message).finished.push(message);
    } else if (message.kind === "slotReleased") {
      const { slot, generation } = message;
      this.ended(message).released++;
      const record = this.tables.request(slot);
      if (this.tables.requests[record + REQUEST_GENERATION] !== generation)
        throw new Error("wrong generation released");
      Atomics.store(this.tables.requests, record + REQUEST_LIVE_WORD, 0);
      this.#tokenPages.free(this.tables.requests[record + REQUEST_TOKEN_PAGE]!);
      this.#hashPages.free(this.tables.requests[record + REQUEST_HASH_PAGE]!);
      this.#free.push(slot);
    }
  }

  /** What a dead scheduler had published in the row and not told. */
  #readRow(slot: number, tokens: number[], count: number): void {
    const record = this.tables.request(slot);
    const prompt = this.tables.requests[record + REQUEST_PROMPT_TOKENS]!;
    const page = this.tables.requests[record + REQUEST_TOKEN_PAGE]!;
    while (tokens.length < count) tokens.push(this.tables.tokens.get(page, prompt + tokens.length));
  }

  #hash(tokenPage: number, hashPage: number, from: number, to: number): number {
    const { tokens, hashes } = this.tables;
    for (let block = from; block < to; block++) {
      let state = block === 0 ? 17 : hashes.words[hashes.offset(hashPage, block - 1)]!;
      const at = hashes.offset(hashPage, block);
      for (let word = 0; word < 8; word++) {
        for (let index = 0; index < BLOCK; index++)
          state =
            Math.imul(state ^ tokens.get(tokenPage, block * BLOCK + index), 0x9e3779b1) + word;
        hashes.words[at + word] = state;
      }
    }
    return to - from;
  }

  #key(hashPage: number, chunk: number): string {
    const { hashes } = this.tables;
    const at = hashes.offset(hashPage, chunk);
    return hashes.words.subarray(at, at + 8).join(",");
  }

  #lookup(message: Message): void {
    if (
      message.kind === "discardLookup" ||
      message.kind === "lookup" ||
      message.kind === "hashRequest"
    ) {
      const { slot, generation } = message;
      const record = this.tables.request(slot);
      const words = this.tables.requests;
      if (message.kind === "discardLookup")
        return this.post(ACTOR_SCHEDULER, {
          kind: "lookupDone",
          slot,
          generation,
          attempt: message.attempt,
        });
      const hashPage = words[record + REQUEST_HASH_PAGE]!;
      if (message.kind === "hashRequest") {
        const blocks = Math.floor(words[record + REQUEST_PROMPT_TOKENS]! / BLOCK);
        this.#hash(words[record + REQUEST_TOKEN_PAGE]!, hashPage, 0, blocks);
        Atomics.store(words, record + REQUEST_HASHED_BLOCKS_WORD, blocks);
        return this.post(ACTOR_SCHEDULER, { kind: "hashed", slot, generation, blocks });
      }
      // Hashes what is not hashed yet: the question may cover more than the prompt.
      this.#hash(
        words[record + REQUEST_TOKEN_PAGE]!,
        hashPage,
        0,
        Math.floor(message.tokens / BLOCK),
      );
      let chunks = 0;
      const most = Math.floor((message.tokens - 1) / BLOCK);
      while (chunks < most && this.pool.has(this.#key(hashPage, chunks))) chunks++;
      words[record + REQUEST_HIT_TOKENS] = chunks * BLOCK;
      const state = chunks > 0 ? LOOKUP_HIT : LOOKUP_MISS;
      Atomics.store(words, record + REQUEST_LOOKUP_WORD, lookupWord(message.attempt, 1, state));
      this.post(ACTOR_SCHEDULER, {
        kind: "lookupDone",
        slot,
        generation,
        attempt: message.attempt,
      });
    }
  }

  #load(message: Message): void {
    if (message.kind !== "load") return;
    const { job, worker } = message;
    const queue = this.#queues.get(ACTOR_LOADER) ?? [];
    const cancel = queue.findIndex((other) => other.kind === "cancelLoad" && other.job === job);
    if (cancel >= 0) queue.splice(cancel, 1);
    let bad = cancel >= 0 ? this.tables.jobs[this.tables.job(job) + JOB_CHUNK_FIRST]! : NONE;
    if (cancel < 0)
      this.#eachBlock(job, (chunk, block, key) => {
        const bytes = this.pool.get(key);
        if (bytes !== undefined && chunk < this.failLoadsFrom)
          this.memory.set(bytes, block * BLOCK * KV_WORDS);
        else {
          // A block that failed half way holds anything.
          this.memory.fill(-7, block * BLOCK * KV_WORDS, (block + 1) * BLOCK * KV_WORDS);
          if (bad === NONE) bad = chunk;
        }
      });
    const failure = cancel >= 0 ? OUTCOME_CANCELLED : OUTCOME_ENGINE_ERROR;
    Atomics.store(this.tables.jobs, this.tables.job(job) + JOB_STATE_WORD, JOB_STATE_DONE);
    this.post(ACTOR_SCHEDULER, {
      kind: "loadDone",
      job,
      worker,
      outcome: bad === NONE ? OUTCOME_HIT : failure,
      badChunk: bad,
      memoryBlocks: 0,
      diskBlocks: 0,
      kibibytes: 0,
      microseconds: 0,
    });
  }

  #save(message: Message): void {
    if (message.kind !== "save") return;
    const { job, worker } = message;
    Atomics.store(this.tables.jobs, this.tables.job(job) + JOB_STATE_WORD, JOB_STATE_TAKEN);
    let written = 0;
    this.#eachBlock(job, (_chunk, block, key) => {
      this.pool.set(
        key,
        this.memory.slice(block * BLOCK * KV_WORDS, (block + 1) * BLOCK * KV_WORDS),
      );
      written++;
    });
    Atomics.store(this.tables.jobs, this.tables.job(job) + JOB_STATE_WORD, JOB_STATE_DONE);
    this.post(ACTOR_SCHEDULER, {
      kind: "saveDone",
      job,
      worker,
      outcome: OUTCOME_HIT,
      writtenBlocks: written,
      presentBlocks: 0,
      failedBlocks: 0,
      kibibytes: 0,
      microseconds: 0,
    });
  }

  #eachBlock(job: number, visit: (chunk: number, block: number, key: string) => void): void {
    const { jobs, blocks } = this.tables;
    const at = this.tables.job(job);
    const first = jobs[at + JOB_CHUNK_FIRST]!;
    for (let index = 0; index < jobs[at + JOB_CHUNKS]!; index++) {
      const block = blocks.get(jobs[at + JOB_BLOCK_PAGE]!, index);
      visit(first + index, block, this.#key(jobs[at + JOB_HASH_PAGE]!, first + index));
    }
  }
}

class Death extends Error {}

/** The scheduler has none: any use of it fails. */
const NO_ENGINE = new Proxy({} as EngineChannel, {
  get: () => {
    throw new Error("the scheduler has no engine");
  },
});

export function promptOf(length: number, seed: number): number[] {
  const random = new SeededRandom(seed);
  return Array.from({ length }, () => random.below(VOCABULARY));
}
