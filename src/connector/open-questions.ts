import { ACTOR_LOOKUP } from "../actors/messages.ts";
import { LOOKUPS_PER_REQUEST_MAX } from "../blocks/capacities.ts";
import {
  LOOKUP_HIT,
  lookupAttempt,
  lookupState,
  NONE,
  REQUEST_GENERATION,
  REQUEST_LOOKUP_ASKED_WORD,
} from "../blocks/layout.ts";
import type { Tables } from "../blocks/tables.ts";
import { writeQuestion } from "./lookup-question.ts";
import type { SchedulerPorts } from "./ports.ts";

/**
 * What the lookup actor was asked, by slot: the number of the newest question, whether it is answered, and how many
 * `lookupDone` messages are still to come. Each question gets one, also when it is discarded or a newer one has followed.
 */
export class OpenQuestions {
  readonly #ports: Pick<SchedulerPorts, "tables" | "trace" | "send" | "readLookup">;
  readonly #attempt: Int32Array;
  /** lookupDone messages still to come: the lookup actor may touch the slot's rows until then. */
  readonly #outstanding: Int32Array;
  /** Attempt whose lookupDone came last: tells duplicates. */
  readonly #doneAttempt: Int32Array;

  constructor(ports: Pick<SchedulerPorts, "tables" | "trace" | "send" | "readLookup">) {
    const slots = ports.tables.dimensions.requestSlots;
    this.#ports = ports;
    // A successor goes on counting: an answer to its predecessor's question must not be taken for its own.
    this.#attempt = lastAttempts(ports.tables);
    this.#outstanding = new Int32Array(slots);
    this.#doneAttempt = new Int32Array(slots).fill(NONE);
  }

  /** Forgets what a former request of the slot left, but goes on counting attempts. */
  added(slot: number): void {
    this.#outstanding[slot] = 0;
    this.#doneAttempt[slot] = NONE;
  }

  /** Number of the slot's newest question. */
  attempt(slot: number): number {
    return this.#attempt[slot]!;
  }
  outstanding(slot: number): number {
    return this.#outstanding[slot]!;
  }
  /** A lookup actor that leaves that many questions of one request open does not answer; the mailboxes hold no more. */
  full(slot: number): boolean {
    return this.#outstanding[slot]! >= LOOKUPS_PER_REQUEST_MAX;
  }

  /** Asks about the slot's first `tokens` tokens. The slot must not be `full`. */
  ask(slot: number, tokens: number, hashedBlocks: number): void {
    const { tables, trace } = this.#ports;
    const attempt = (this.#attempt[slot]! + 1) & 0xffff;
    this.#attempt[slot] = attempt;
    const question = writeQuestion(tables, slot, attempt, tokens, hashedBlocks);
    this.#outstanding[slot] = this.#outstanding[slot]! + 1;
    this.#ports.send(ACTOR_LOOKUP, question);
    trace.record("lookupSubmitted", slot, question.generation, tokens, attempt);
  }

  /** Nobody waits for the answer to the newest question any more. Its `lookupDone` still comes. */
  discard(slot: number): void {
    const { tables } = this.#ports;
    const generation = tables.requests[tables.request(slot) + REQUEST_GENERATION]!;
    const attempt = this.#attempt[slot]!;
    this.#ports.send(ACTOR_LOOKUP, { kind: "discardLookup", slot, generation, attempt });
  }

  /** The published answer to the newest question, an OUTCOME_ code: the LOOKUP_ states of answers are those. Else NONE. */
  answer(slot: number): number {
    const word = this.#ports.readLookup(slot);
    const state = lookupState(word);
    return lookupAttempt(word) === this.#attempt[slot] && state >= LOOKUP_HIT ? state : NONE;
  }

  /**
   * Takes a `lookupDone`. False: it is none that is to come. `awaited`: the request waits for just this one, so that it counts
   * whatever the count says.
   */
  closed(slot: number, attempt: number, awaited: boolean): boolean {
    // After a restart of the lookup actor the count may have been forgotten while the question was asked again.
    if ((this.#outstanding[slot] === 0 && !awaited) || this.#doneAttempt[slot] === attempt)
      return false;
    this.#outstanding[slot] = Math.max(0, this.#outstanding[slot]! - 1);
    this.#doneAttempt[slot] = attempt;
    return true;
  }

  /** The lookup actor runs anew: it answers each slot's newest question once unless it did so, older ones are forgotten. */
  actorRestarted(): void {
    for (let slot = 0; slot < this.#outstanding.length; slot++)
      if (this.#outstanding[slot] !== 0) this.#outstanding[slot] = this.#isAnswered(slot) ? 0 : 1;
  }

  /** Discarded ones have no answer that shows: their `lookupDone` alone tells. */
  #isAnswered(slot: number): boolean {
    return this.#doneAttempt[slot] === this.#attempt[slot] || this.answer(slot) !== NONE;
  }

  /** The lookup actor was given up: nothing comes any more. */
  actorGone(): void {
    this.#outstanding.fill(0);
  }
}

/** By slot, the number of the last question that was written for it. */
function lastAttempts(tables: Tables): Int32Array {
  return Int32Array.from({ length: tables.dimensions.requestSlots }, (_, slot) =>
    lookupAttempt(tables.requests[tables.request(slot) + REQUEST_LOOKUP_ASKED_WORD]!),
  );
}
