import {
  OUTCOME_BACK_PRESSURE,
  OUTCOME_CANCELLED,
  OUTCOME_ENGINE_DOWN,
  OUTCOME_ENGINE_ERROR,
  OUTCOME_HIT,
  OUTCOME_IDENTITY_MISMATCH,
  OUTCOME_MISS,
  OUTCOME_NONE,
  OUTCOME_TIMEOUT,
} from "../actors/messages.ts";
import { NONE, REQUEST_GENERATION, REQUEST_HIT_TOKENS } from "../blocks/layout.ts";
import { Deadlines } from "../blocks/deadlines.ts";
import type { EngineHealth } from "./engine-health.ts";
import { FAILURE_BASE, IN_FLIGHT } from "./hooks.ts";
import { HitTails } from "./hit-tails.ts";
import { OpenQuestions } from "./open-questions.ts";
import { rulesOf } from "./ports.ts";
import type { ConnectorCounters, SchedulerPorts } from "./ports.ts";

const IDLE = 0;
const ASKED = 1;
/** Answered: the hit may be used until it is too old. */
const ANSWERED = 2;
/** Failed: the request computes; not asked again unless it is preempted. */
const FAILED = 3;

/** One pool lookup for each request: its state, deadline and typed outcome. A waiting lookup costs nothing between events. */
export class Lookups {
  readonly #ports: SchedulerPorts;
  readonly #health: EngineHealth;
  readonly #counters: ConnectorCounters;
  readonly #lifetimeMs: number;
  readonly #questions: OpenQuestions;
  readonly #state: Uint8Array;
  readonly #outcome: Uint8Array;
  readonly #hitTokens: Int32Array;
  /** As they were when the answer was read. */
  readonly tails: HitTails;
  readonly #answeredMs: Float64Array;
  readonly #used: Uint8Array;
  readonly #deadlines: Deadlines;
  /** Lookup or loader was given up: what the pool holds is of no use to anyone here. */
  #useless = false;

  constructor(ports: SchedulerPorts, health: EngineHealth, counters: ConnectorCounters) {
    const slots = ports.tables.dimensions.requestSlots;
    this.tails = new HitTails(ports.tables, rulesOf(ports));
    this.#ports = ports;
    this.#health = health;
    this.#counters = counters;
    this.#lifetimeMs = ports.settings.answerLifetimeMs ?? ports.settings.lookupTimeoutMs;
    this.#questions = new OpenQuestions(ports);
    this.#state = new Uint8Array(slots);
    this.#outcome = new Uint8Array(slots);
    this.#hitTokens = new Int32Array(slots);
    this.#answeredMs = new Float64Array(slots);
    this.#used = new Uint8Array(slots);
    this.#deadlines = new Deadlines(slots);
  }

  /** Forgets what a former request of the slot left. */
  added(slot: number): void {
    this.#state[slot] = IDLE;
    this.#outcome[slot] = OUTCOME_NONE;
    this.#questions.added(slot);
  }

  outcome(slot: number): number {
    return this.#outcome[slot]!;
  }
  /** Answers still to come: the slot may not be released before. */
  outstanding(slot: number): number {
    return this.#questions.outstanding(slot);
  }
  nextDeadlineMs(): number {
    return this.#deadlines.nextMs();
  }
  waiting(): number {
    return this.#deadlines.size;
  }

  /** Hit tokens (0 for a miss), IN_FLIGHT, or a failure. Asks when there is no answer that may be used. */
  poll(slot: number, tokens: number, hashedBlocks: number): number {
    const state = this.#state[slot]!;
    if (state === ASKED) return this.#observe(slot);
    if (state === FAILED) return FAILURE_BASE - this.#outcome[slot]!;
    const now = this.#ports.nowMs();
    // The first look at an answer always counts, however late it is.
    const usable = this.#used[slot] === 0 || now - this.#answeredMs[slot]! < this.#lifetimeMs;
    if (state === ANSWERED && usable) return this.#use(slot);
    if (this.#useless) return this.refuse(slot, OUTCOME_ENGINE_DOWN);
    if (this.#questions.full(slot)) return this.#fail(slot, OUTCOME_TIMEOUT);
    if (!this.#health.admits(slot, now)) return this.refuse(slot, OUTCOME_ENGINE_DOWN);
    this.#ask(slot, tokens, hashedBlocks, now);
    const wait = this.#ports.waitLookup;
    if (this.#ports.settings.lookupAsync || wait === undefined) return IN_FLIGHT;
    return this.#waitFor(slot, wait);
  }

  /** The pool is not used, for this reason: what the request waits for or was told is void. */
  refuse(slot: number, outcome: number): number {
    if (this.#state[slot] === FAILED) return FAILURE_BASE - this.#outcome[slot]!;
    if (this.#state[slot] === ASKED) {
      this.#giveUp(slot);
      this.#health.discarded(slot);
    } else if (outcome === OUTCOME_ENGINE_DOWN) this.#counters.engineDownAnswers++;
    return this.#fail(slot, outcome);
  }

  /** What was found may be gone: asked anew when it is needed. */
  forgetAnswers(): void {
    for (let slot = 0; slot < this.#state.length; slot++) this.consumed(slot);
  }

  /** The answer was taken by an allocation: the next question is a new one. */
  consumed(slot: number): void {
    if (this.#state[slot] === ANSWERED) this.#state[slot] = IDLE;
  }

  /** What was found is not loaded this time: no job record, or too many blocks that the engine does not give back. It may be offered again while the answer is good. */
  pushedBack(slot: number): number {
    this.#outcome[slot] = OUTCOME_BACK_PRESSURE;
    return FAILURE_BASE - OUTCOME_BACK_PRESSURE;
  }

  /** The load of what was found failed: the typed outcome stays with the request. */
  loadFailed(slot: number, outcome: number): void {
    this.#outcome[slot] = outcome;
  }

  /** The request is looked at anew (preempted) or is gone. A lookup in flight is given up. */
  reset(slot: number): void {
    if (this.#state[slot] === ASKED) {
      this.#giveUp(slot);
      this.#health.discarded(slot);
      this.#answer(slot, OUTCOME_CANCELLED, 0);
    }
    this.#state[slot] = IDLE;
  }

  /** True when the slot waited for exactly this answer: look at the request again. */
  done(slot: number, attempt: number): boolean {
    const state = this.#state[slot];
    const newest = attempt === this.#questions.attempt(slot);
    if (!this.#questions.closed(slot, attempt, newest && state === ASKED)) {
      this.#counters.staleMessages++;
      return false;
    }
    if (!newest || state === IDLE || state === FAILED) {
      this.#counters.lateLookups++;
      return false;
    }
    if (state !== ASKED) return false;
    const answer = this.#questions.answer(slot);
    // The word was published before the message was sent; without it the lookup actor has given the question up.
    this.#settleUnseen(slot, answer === NONE ? OUTCOME_ENGINE_ERROR : answer);
    return true;
  }

  /** The lookup actor runs anew. */
  actorRestarted(): void {
    this.#questions.actorRestarted();
  }

  /** Lookup or loader was given up: every wait ends, nothing is asked any more, and answers are not used. */
  actorGone(lookupGone: boolean): void {
    this.#useless = true;
    this.#state.forEach((state, slot) => {
      if (state === ASKED || state === ANSWERED) this.refuse(slot, OUTCOME_ENGINE_DOWN);
    });
    if (lookupGone) this.#questions.actorGone();
  }

  expire(visit: (slot: number, loadLost: boolean) => void): void {
    const now = this.#ports.nowMs();
    for (let slot = this.#deadlines.takeDue(now); slot !== NONE;) {
      // An answer that came before anyone looked is still an answer.
      const answer = this.#questions.answer(slot);
      if (answer === NONE) this.#timeOut(slot);
      else this.#settleUnseen(slot, answer);
      visit(slot, false);
      slot = this.#deadlines.takeDue(now);
    }
  }

  #ask(slot: number, tokens: number, hashedBlocks: number, now: number): void {
    this.#state[slot] = ASKED;
    this.#outcome[slot] = OUTCOME_NONE;
    this.#used[slot] = 0;
    this.#deadlines.set(slot, now + this.#ports.settings.lookupTimeoutMs);
    this.#questions.ask(slot, tokens, hashedBlocks);
  }

  #waitFor(slot: number, wait: NonNullable<SchedulerPorts["waitLookup"]>): number {
    this.#ports.flushWakes();
    let leftMs = this.#ports.settings.lookupTimeoutMs;
    for (;;) {
      const seen = this.#ports.readLookup(slot);
      const hit = this.#observe(slot);
      if (hit !== IN_FLIGHT) return hit;
      if (leftMs <= 0) return this.#timeOut(slot);
      leftMs = wait(slot, seen, leftMs);
    }
  }

  #observe(slot: number): number {
    const answer = this.#questions.answer(slot);
    if (answer !== NONE) return this.#settle(slot, answer);
    if (this.#ports.nowMs() >= this.#deadlines.timeMs(slot)) return this.#timeOut(slot);
    return IN_FLIGHT;
  }

  /** The newest question has its answer. */
  #settle(slot: number, outcome: number): number {
    this.#deadlines.delete(slot);
    if (outcome !== OUTCOME_HIT && outcome !== OUTCOME_MISS) {
      if (outcome === OUTCOME_IDENTITY_MISMATCH) this.#health.lookupSucceeded();
      else this.#health.lookupFailed(slot, this.#ports.nowMs());
      return this.#fail(slot, outcome);
    }
    this.#health.lookupSucceeded();
    const hit = outcome === OUTCOME_HIT ? this.#record(slot, REQUEST_HIT_TOKENS) : 0;
    this.#state[slot] = ANSWERED;
    this.#hitTokens[slot] = hit;
    this.tails.read(slot);
    this.#answeredMs[slot] = this.#ports.nowMs();
    this.#answer(slot, outcome, hit);
    return this.#use(slot);
  }

  /** The request has yet to look at the answer. */
  #settleUnseen(slot: number, outcome: number): void {
    this.#settle(slot, outcome);
    this.#used[slot] = 0;
  }

  #use(slot: number): number {
    this.#used[slot] = 1;
    if (this.#outcome[slot] === OUTCOME_BACK_PRESSURE) this.#outcome[slot] = OUTCOME_HIT;
    return this.#hitTokens[slot]!;
  }

  #timeOut(slot: number): number {
    this.#giveUp(slot);
    this.#counters.lookupTimeouts++;
    this.#health.lookupFailed(slot, this.#ports.nowMs());
    const generation = this.#record(slot, REQUEST_GENERATION);
    this.#ports.trace.record("deadlinePassed", slot, generation, 1, this.#questions.attempt(slot));
    return this.#fail(slot, OUTCOME_TIMEOUT);
  }

  #giveUp(slot: number): void {
    this.#deadlines.delete(slot);
    this.#questions.discard(slot);
  }

  #fail(slot: number, outcome: number): number {
    this.#state[slot] = FAILED;
    this.#answer(slot, outcome, 0);
    return FAILURE_BASE - outcome;
  }

  #answer(slot: number, outcome: number, hit: number): void {
    this.#outcome[slot] = outcome;
    const generation = this.#record(slot, REQUEST_GENERATION);
    this.#ports.trace.record("lookupAnswered", slot, generation, outcome, hit);
  }

  #record(slot: number, word: number): number {
    const { tables } = this.#ports;
    return tables.requests[tables.request(slot) + word]!;
  }
}
