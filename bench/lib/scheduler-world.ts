import { Outboxes } from "../../src/actors/hosts/outboxes.ts";
import { Mailbox, mailboxWords } from "../../src/actors/mailbox/mailbox.ts";
import {
  ACTOR_COUNT,
  ACTOR_FRONT_END,
  ACTOR_LOOKUP,
  ACTOR_MODEL,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
} from "../../src/actors/messages.ts";
import { mailboxCapacities } from "../../src/actors/plan.ts";
import { createScheduler } from "../../src/actors/scheduler/create-scheduler.ts";
import type { SchedulerActor } from "../../src/actors/scheduler/scheduler-actor.ts";
import type { ActorContext, Inbox } from "../../src/actors/step.ts";
import { REQUEST_LOOKUP_WORD } from "../../src/blocks/layout.ts";
import { RequestSlots } from "../../src/blocks/request-slots.ts";
import { createTableBuffers, Tables, type TableDimensions } from "../../src/blocks/tables.ts";
import type { ConnectorSettings } from "../../src/connector/settings.ts";
import { DEFAULT_HASH_ALGORITHM } from "../../src/config/kv-cache-config.ts";
import { noneHash } from "../../src/keys/none-hash.ts";
import type { NativeBinding } from "../../src/native/binding.ts";
import type { EngineChannel } from "../../src/store/engine.ts";
import { CounterBlock, createCounterBuffer } from "../../src/trace/counters.ts";
import { NO_TRACE } from "../../src/trace/events.ts";
import { runModel, runSaver, SlowLookups } from "./stand-ins.ts";

const SILENT = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

export const SETTINGS: ConnectorSettings = {
  role: "kv_both",
  loadAsync: true,
  lookupAsync: true,
  enableLookup: true,
  canSave: true,
  saveDecodeCache: false,
  lookupTimeoutMs: 10_000,
  loadTimeoutMs: 30_000,
  saveTimeoutMs: 60_000,
  minLoadTokens: 0,
  loadFailurePolicy: "recompute",
};

/** Real tables, mailboxes, request slots and hasher on the calling thread, with a clock that only `advance` moves. */
export class BenchTables {
  readonly tables: Tables;
  readonly mailboxes: readonly Mailbox[];
  readonly outboxes: Outboxes;
  readonly slots: RequestSlots;
  readonly context: ActorContext;
  nowMs = 1000;
  readonly #native: NativeBinding;
  readonly #hasherId: number;

  /** `wake` is called by `outboxes.flush` for a receiver that sleeps. */
  constructor(
    native: NativeBinding,
    dimensions: TableDimensions,
    wake: (actor: number) => void = () => undefined,
  ) {
    const buffers = createTableBuffers(dimensions);
    const tables = new Tables(buffers);
    this.tables = tables;
    const { requestSlots, jobSlots, stepSequencesMax } = dimensions;
    this.mailboxes = mailboxCapacities(requestSlots, jobSlots, stepSequencesMax, 1).map(
      createMailbox,
    );
    this.outboxes = new Outboxes(this.mailboxes, wake);
    this.slots = new RequestSlots(tables);
    this.#hasherId = native.hasherRegister({
      algorithm: DEFAULT_HASH_ALGORITHM,
      blockSize: dimensions.hashBlockSize,
      noneHash: noneHash(null, DEFAULT_HASH_ALGORITHM),
      tokensSharedId: native.sharedRegister(new Uint8Array(buffers.tokenPages)),
      hashesSharedId: native.sharedRegister(new Uint8Array(buffers.hashPages)),
    });
    this.#native = native;
    this.context = this.contextWith(null);
  }

  /** `engine` null: for actors without one. */
  contextWith(engine: EngineChannel | null): ActorContext {
    const { tables } = this;
    return {
      epoch: 1,
      nowMs: () => this.nowMs,
      random: () => 0.5,
      log: SILENT,
      trace: NO_TRACE,
      get engine(): EngineChannel {
        if (engine === null) throw new Error("this actor has no engine");
        return engine;
      },
      send: (actor, message) => this.outboxes.send(actor, message),
      room: (actor) => this.outboxes.room(actor),
      readLookup: (slot) =>
        Atomics.load(tables.requests, tables.request(slot) + REQUEST_LOOKUP_WORD),
      hashBlocks: (tokenPage, hashPage, extrasPage, fromBlock, toBlock) =>
        this.#native.hashBlocks(
          this.#hasherId,
          tokenPage,
          hashPage,
          extrasPage,
          fromBlock,
          toBlock,
        ),
    };
  }
}

export interface Asked {
  readonly slot: number;
  readonly generation: number;
}

/** A scheduler actor that runs for real, one measured step at a time, between stand-ins for the other actors. */
export class SchedulerWorld {
  readonly shared: BenchTables;
  readonly actor: SchedulerActor;
  readonly lookups: SlowLookups;
  /** Requests that have ended and whose slots are free again. */
  released = 0;
  tokensGenerated = 0;
  readonly #native: NativeBinding;
  readonly #inbox: Inbox;
  readonly #stepMs: number;

  constructor(
    native: NativeBinding,
    dimensions: TableDimensions,
    options: { readonly lookupMs: number; readonly stepMs: number },
  ) {
    this.#native = native;
    this.#stepMs = options.stepMs;
    this.shared = new BenchTables(native, dimensions);
    const { tables, context, mailboxes } = this.shared;
    const flushes = this.shared.outboxes;
    this.lookups = new SlowLookups(tables, context.hashBlocks, options.lookupMs);
    this.actor = createScheduler(
      {
        tables,
        settings: SETTINGS,
        ranks: 1,
        pool: true,
        endTokenIds: [],
        tokensPerStepMax: 2048,
        sequencesMax: dimensions.stepSequencesMax,
        counterBlock: new CounterBlock(createCounterBuffer(ACTOR_COUNT), ACTOR_SCHEDULER),
        flushWakes: () => flushes.flush(),
      },
      context,
    );
    const own = mailboxes[ACTOR_SCHEDULER]!;
    this.#inbox = { next: () => own.pop() };
  }

  add(tokens: Int32Array, tokensMax: number): Asked {
    const added = this.shared.slots.addRequest({ tokens, tokensMax });
    if (!added.ok) throw new Error(`the bench's tables are too small: ${added.remedy}`);
    const { slot, generation } = added;
    this.shared.context.send(ACTOR_SCHEDULER, { kind: "addRequest", slot, generation });
    return { slot, generation };
  }

  abort({ slot, generation }: Asked): void {
    this.shared.context.send(ACTOR_SCHEDULER, { kind: "abortRequest", slot, generation });
  }

  /** Lets the others have their turn, then one scheduling step. Returns the step's thread CPU time in nanoseconds. */
  step(): number {
    const { tables, mailboxes, context } = this.shared;
    const send = context.send;
    this.shared.nowMs += this.#stepMs;
    runModel(mailboxes[ACTOR_MODEL]!, tables, send);
    runSaver(mailboxes[ACTOR_SAVER]!, tables, send);
    this.lookups.turn(mailboxes[ACTOR_LOOKUP]!, this.shared.nowMs, send);
    const start = this.#native.threadCpuNanoseconds();
    this.actor.step(this.#inbox, tables, context);
    const nanoseconds = this.#native.threadCpuNanoseconds() - start;
    this.#readAnswers();
    return nanoseconds;
  }

  #readAnswers(): void {
    const mailbox = this.shared.mailboxes[ACTOR_FRONT_END]!;
    for (let message = mailbox.pop(); message !== null; message = mailbox.pop()) {
      if (message.kind === "tokenGenerated") this.tokensGenerated++;
      if (message.kind !== "slotReleased") continue;
      this.shared.slots.release(message.slot);
      this.released++;
    }
  }
}

function createMailbox(capacity: number): Mailbox {
  const words = new Int32Array(new SharedArrayBuffer(mailboxWords(capacity) * 4));
  Mailbox.initialise(words);
  return new Mailbox(words);
}
