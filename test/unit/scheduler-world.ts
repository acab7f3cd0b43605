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
} from "../../src/actors/messages.ts";
import { SimulatedModel } from "../../src/actors/hosts/simulated/model.ts";
import { modelTruth } from "../../src/actors/hosts/simulated/model-truth.ts";
import { SeededRandom } from "../../src/actors/hosts/simulated/random.ts";
import { createSchedulerMemory, type SchedulerOptions } from "../../src/actors/scheduler/core.ts";
import { SchedulerActor } from "../../src/actors/scheduler/scheduler-actor.ts";
import type { ActorContext } from "../../src/actors/step.ts";
import { REQUEST_LOOKUP_WORD } from "../../src/blocks/layout.ts";
import { createTableBuffers, type TableDimensions, Tables } from "../../src/blocks/tables.ts";
import type { ConnectorSettings } from "../../src/connector/settings.ts";
import { ConnectorSides } from "../../src/connector/sides.ts";
import { type Ended, FrontEnd, type RequestId } from "./scheduler-front-end.ts";
import { BLOCK, KV_WORDS, NO_ENGINE, StandIns } from "./scheduler-stand-ins.ts";
import { NO_TRACE } from "../../src/trace/events.ts";

export const VOCABULARY = 1000;
const MODEL_SHAPE = { ranks: 1, groups: 1, ranksAreEqual: true, vocabulary: VOCABULARY };

export interface WorldOptions {
  readonly dimensions?: Partial<TableDimensions>;
  readonly scheduler?: Partial<SchedulerOptions>;
  readonly settings?: Partial<ConnectorSettings>;
  readonly pool?: boolean;
}

export class World {
  readonly tables: Tables;
  readonly memory: Int32Array;
  readonly actors: StandIns;
  readonly frontEnd: FrontEnd;
  /** Messages for these actors stay in their queue. */
  readonly held = new Set<number>();
  readonly sent: { actor: number; message: Message }[] = [];
  nowMs = 1000;
  frontEndRoom = 1_000_000;
  /** So many of the next steps fail. */
  failSteps = 0;
  /** The scheduler dies at its so-many-th message, in the middle of a step; its successor starts with the next turn. */
  diesAfter = Infinity;
  scheduler!: SchedulerActor;
  sides: ConnectorSides | null = null;
  memoryOfScheduler!: ReturnType<typeof createSchedulerMemory>;
  readonly #options: WorldOptions;
  readonly #queues = new Map<number, Message[]>();
  #model: SimulatedModel;
  #modelDue: (() => void)[] = [];
  #epoch = 0;

  constructor(options: WorldOptions = {}) {
    this.#options = options;
    const dimensions: TableDimensions = {
      requestSlots: 16,
      jobSlots: 32,
      tokensPerRequestMax: 256,
      tokensMax: 16 * 256,
      hashBlockSize: BLOCK,
      hashLookaheadTokens: 0,
      extraEncoding: "pickle",
      blockSize: BLOCK,
      groups: 1,
      blockCount: 65,
      stepSequencesMax: 8,
      ...options.dimensions,
    };
    this.tables = new Tables(createTableBuffers(dimensions));
    this.memory = new Int32Array(dimensions.blockCount * BLOCK * KV_WORDS);
    this.actors = new StandIns(this.tables, this.memory, (actor, message) =>
      this.post(actor, message),
    );
    this.frontEnd = new FrontEnd(this.tables, (actor, message) => this.post(actor, message));
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
            send: (actor, message) => context.send(actor, message),
            blockPages: memory.pages,
            pool: memory.allocator,
            ranks: 1,
            flushWakes: () => undefined,
            readLookup: (slot) => context.readLookup(slot),
            hashBlocks: (...range) => context.hashBlocks(...range),
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
        this.actors.hash(tokenPage, hashPage, from, to),
    };
  }

  // --- front end ---

  add(prompt: readonly number[], outputTokens: number, flags = 0): RequestId {
    return this.frontEnd.add(prompt, outputTokens, flags);
  }
  abort({ slot, generation }: RequestId): void {
    this.post(ACTOR_SCHEDULER, { kind: "abortRequest", slot, generation });
  }
  ended(id: RequestId): Ended {
    return this.frontEnd.ended(id);
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
    this.#serve(ACTOR_LOOKUP, (message) => this.actors.lookup(message));
    this.#serve(ACTOR_LOADER, (message) =>
      this.actors.load(message, this.#queues.get(ACTOR_LOADER) ?? []),
    );
    this.#serve(ACTOR_SAVER, (message) => this.actors.save(message));
    if (!this.held.has(ACTOR_MODEL)) this.#runModel();
    this.#serve(ACTOR_FRONT_END, (message) => this.frontEnd.take(message));
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
    return modelTruth(prompt, outputTokens, MODEL_SHAPE);
  }

  #serve(actor: number, take: (message: Message) => void): void {
    if (this.held.has(actor)) return;
    const queue = this.#queues.get(actor) ?? [];
    for (let message = queue.shift(); message !== undefined; message = queue.shift()) take(message);
  }

  #newModel(): SimulatedModel {
    return new SimulatedModel({
      memories: [this.memory],
      blockSize: BLOCK,
      shape: MODEL_SHAPE,
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
}

class Death extends Error {}

export function promptOf(length: number, seed: number): number[] {
  const random = new SeededRandom(seed);
  return Array.from({ length }, () => random.below(VOCABULARY));
}
