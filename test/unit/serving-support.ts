import { expect } from "vitest";
import { Outboxes } from "../../src/actors/hosts/outboxes.ts";
import { Mailbox, mailboxWords } from "../../src/actors/mailbox/mailbox.ts";
import {
  ACTOR_COUNT,
  ACTOR_FRONT_END,
  ACTOR_SCHEDULER,
  FINISH_ABORTED,
  FINISH_LENGTH,
  FINISH_STOP,
  OUTCOME_HIT,
  type Message,
  type RequestFinished,
} from "../../src/actors/messages.ts";
import type { Log } from "../../src/actors/step.ts";
import * as layout from "../../src/blocks/layout.ts";
import { appendLogprobRow } from "../../src/blocks/logprob-rows.ts";
import {
  RequestSlots,
  type NewRequest,
  type RequestAdded,
  type RequestRefused,
} from "../../src/blocks/request-slots.ts";
import { createTableBuffers, Tables } from "../../src/blocks/tables.ts";
import { FrontEnd } from "../../src/serving/front-end.ts";
import { FRONT_END_LIMITS, type FrontEndLimits } from "../../src/serving/front-end-types.ts";
import { CounterBlock, createCounterBuffer } from "../../src/trace/counters.ts";

export const silentLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

export interface WorldOptions {
  readonly requestSlots?: number;
  readonly tokensPerRequestMax?: number;
  readonly limits?: Partial<FrontEndLimits>;
}

/** A front end over real tables and mailboxes, with a scheduler double at the other end, all in one thread. */
export class World {
  readonly tables: Tables;
  readonly slots: RecordingSlots;
  readonly scheduler: SchedulerDouble;
  readonly frontEnd: FrontEnd;
  readonly counterBuffer = createCounterBuffer(ACTOR_COUNT);
  readonly counters = new CounterBlock(this.counterBuffer, ACTOR_FRONT_END);
  readonly mailboxWords: Int32Array[];
  readonly mailboxes: Mailbox[];
  nowMs = 1000;

  constructor(options: WorldOptions = {}) {
    const tokensPerRequestMax = options.tokensPerRequestMax ?? 4096;
    const requestSlots = options.requestSlots ?? 8;
    this.tables = new Tables(
      createTableBuffers({
        requestSlots,
        jobSlots: 8,
        tokensPerRequestMax,
        tokensMax: requestSlots * tokensPerRequestMax,
        hashBlockSize: 16,
        hashLookaheadTokens: 0,
        extraEncoding: "pickle",
        blockSize: 16,
        groups: 1,
        blockCount: 64,
        stepSequencesMax: 8,
      }),
    );
    this.slots = new RecordingSlots(this.tables);
    this.mailboxWords = Array.from({ length: ACTOR_COUNT }, () => {
      const words = new Int32Array(new SharedArrayBuffer(mailboxWords(1024) * 4));
      Mailbox.initialise(words);
      return words;
    });
    this.mailboxes = this.mailboxWords.map((words) => new Mailbox(words));
    const wake = (actor: number): void => {
      if (actor === ACTOR_FRONT_END) setImmediate(() => this.frontEnd.wake());
      if (actor === ACTOR_SCHEDULER) setImmediate(this.scheduler.wake);
    };
    this.scheduler = new SchedulerDouble(this.tables, this.mailboxes, wake);
    this.frontEnd = new FrontEnd(
      {
        tables: this.tables,
        slots: this.slots,
        mailbox: this.mailboxes[ACTOR_FRONT_END]!,
        outboxes: new Outboxes(this.mailboxes, wake),
        nowMs: () => this.nowMs,
        counters: this.counters,
        log: silentLog,
      },
      { ...FRONT_END_LIMITS, ...options.limits },
    );
    this.frontEnd.start();
    this.scheduler.wake();
  }
}

/** The owner of the slots, and what it was asked for. */
export class RecordingSlots {
  readonly requests: NewRequest[] = [];
  readonly #slots: RequestSlots;
  readonly #capacity: number;

  constructor(tables: Tables) {
    this.#slots = new RequestSlots(tables);
    this.#capacity = tables.dimensions.requestSlots;
  }

  get freeSlots(): number {
    const { slots, tokenPages, hashPages } = this.#slots.usage();
    if (slots === 0) expect([tokenPages, hashPages]).toEqual([0, 0]);
    return this.#capacity - slots;
  }

  addRequest(request: NewRequest): RequestAdded | RequestRefused {
    this.requests.push(request);
    return this.#slots.addRequest(request);
  }

  release(slot: number): void {
    this.#slots.release(slot);
  }
}

export interface RunningRequest {
  readonly slot: number;
  readonly generation: number;
  readonly prompt: readonly number[];
  aborted: boolean;
}

/**
 * Plays the scheduler: answers each request with the tokens of `answerTo`, one a turn, through the real tables and mailboxes.
 * `held` requests get nothing but what the test sends by hand.
 */
export class SchedulerDouble {
  answerTo: (prompt: readonly number[]) => readonly number[] = () => [];
  endTokenIds: readonly number[] = [];
  hold = false;
  localTokens = 0;
  poolTokens = 0;
  readonly received: Message[] = [];
  readonly running: RunningRequest[] = [];
  readonly #tables: Tables;
  readonly #mailbox: Mailbox;
  readonly #outboxes: Outboxes;

  constructor(tables: Tables, mailboxes: readonly Mailbox[], wake: (actor: number) => void) {
    this.#tables = tables;
    this.#mailbox = mailboxes[ACTOR_SCHEDULER]!;
    this.#outboxes = new Outboxes(mailboxes, wake);
  }

  readonly wake = (): void => {
    for (let message = this.#mailbox.pop(); message !== null; message = this.#mailbox.pop()) {
      this.received.push(message);
      if (message.kind === "addRequest") this.#add(message.slot, message.generation);
      if (message.kind === "abortRequest") this.#abort(message.slot, message.generation);
      if (message.kind === "dropLocalCache") {
        this.send({ kind: "localCacheDropped", ticket: message.ticket, blocks: 7 });
      }
    }
    if (!this.hold) for (const request of this.running.slice()) this.#step(request);
    if (!this.hold && this.running.length > 0) setImmediate(this.wake);
    else if (!this.#mailbox.arm()) setImmediate(this.wake);
  };

  send(message: Message): void {
    this.#outboxes.send(ACTOR_FRONT_END, message);
    this.#outboxes.flush();
  }

  /** Appends a token to the row and announces it, unless it is to be lost. */
  token(request: RunningRequest, token: number, announced = true): void {
    const { requests, tokens, steps, stepsF32 } = this.#tables;
    const at = this.#tables.request(request.slot);
    const index = requests[at + layout.REQUEST_OUTPUT_TOKENS_WORD]!;
    const page = requests[at + layout.REQUEST_TOKEN_PAGE]!;
    tokens.set(page, request.prompt.length + index, token);
    Atomics.store(requests, at + layout.REQUEST_OUTPUT_TOKENS_WORD, index + 1);
    if (!announced) return;
    const wanted = requests[at + layout.REQUEST_LOGPROBS]!;
    const sequence = layout.STEP_HEADER_WORDS;
    steps[sequence + layout.SEQUENCE_SLOT] = request.slot;
    steps[sequence + layout.SEQUENCE_GENERATION] = request.generation;
    stepsF32[sequence + layout.SEQUENCE_LOGPROB_F32] = -0.5 - index;
    steps[sequence + layout.SEQUENCE_TOP_COUNT] = Math.max(0, wanted);
    for (let rank = 0; rank < wanted; rank++) {
      steps[sequence + layout.SEQUENCE_TOP_TOKENS + rank] = token + rank;
      stepsF32[sequence + layout.SEQUENCE_TOP_LOGPROBS_F32 + rank] = -0.5 - index - rank;
    }
    this.send({
      kind: "tokenGenerated",
      slot: request.slot,
      generation: request.generation,
      index,
      token,
      logprobF32: steps[sequence + layout.SEQUENCE_LOGPROB_F32]!,
      logitsHashLow: 0x1234 + index,
      logitsHashHigh: -1,
      logprobRow: appendLogprobRow(this.#tables, sequence, index),
    });
  }

  finish(request: RunningRequest, reason: number, fields: Partial<RequestFinished> = {}): void {
    this.running.splice(this.running.indexOf(request), 1);
    const at = this.#tables.request(request.slot);
    const { slot, generation } = request;
    this.send({
      kind: "requestFinished",
      slot,
      generation,
      reason,
      outputTokens: this.#tables.requests[at + layout.REQUEST_OUTPUT_TOKENS_WORD]!,
      localTokens: this.localTokens,
      poolTokens: this.poolTokens,
      lookupOutcome: OUTCOME_HIT,
      preemptions: 0,
      ...fields,
    });
    this.send({ kind: "slotReleased", slot, generation });
  }

  /** A successor finds a request in the table. */
  adopt(slot: number, generation: number): void {
    this.#add(slot, generation);
    this.wake();
  }

  #add(slot: number, generation: number): void {
    const { requests, tokens } = this.#tables;
    const at = this.#tables.request(slot);
    requests[at + layout.REQUEST_OUTPUT_TOKENS_WORD] = 0;
    const page = requests[at + layout.REQUEST_TOKEN_PAGE]!;
    const count = requests[at + layout.REQUEST_PROMPT_TOKENS]!;
    const prompt = Array.from({ length: count }, (_, index) => tokens.get(page, index));
    this.running.push({ slot, generation, prompt, aborted: false });
  }

  #abort(slot: number, generation: number): void {
    const request = this.running.find((one) => one.slot === slot && one.generation === generation);
    if (request === undefined) return;
    request.aborted = true;
    this.finish(request, FINISH_ABORTED);
  }

  #step(request: RunningRequest): void {
    const { requests } = this.#tables;
    const at = this.#tables.request(request.slot);
    const index = requests[at + layout.REQUEST_OUTPUT_TOKENS_WORD]!;
    const room = requests[at + layout.REQUEST_TOKENS_MAX]! - request.prompt.length;
    const token = this.answerTo(request.prompt)[index];
    if (token === undefined) return this.finish(request, FINISH_STOP);
    this.token(request, token);
    if (this.endTokenIds.includes(token)) return this.finish(request, FINISH_STOP);
    return index + 1 === room ? this.finish(request, FINISH_LENGTH) : undefined;
  }
}

/** Resolves after the event loop has turned `turns` times: all messages of small tests are through by then. */
export async function turns(count = 20): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate);
}
