/**
 * Goal: each question to the lookup actor is answered for once, an older question's answer is never taken for the newest one's,
 * and a slot is held until the last answer has come, over restarts of either side. Method: the questions alone, on real tables;
 * the test plays the lookup actor.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { LOOKUPS_PER_REQUEST_MAX } from "../../src/blocks/capacities.ts";
import {
  LOOKUP_HIT,
  LOOKUP_IDLE,
  LOOKUP_MISS,
  lookupWord,
  NONE,
  REQUEST_GENERATION,
  REQUEST_LOOKUP_ASKED_WORD,
  REQUEST_LOOKUP_WORD,
} from "../../src/blocks/layout.ts";
import type { Tables } from "../../src/blocks/tables.ts";
import { OpenQuestions } from "../../src/connector/open-questions.ts";
import {
  ACTOR_LOOKUP,
  OUTCOME_HIT,
  OUTCOME_MISS,
  type Message,
} from "../../src/actors/messages.ts";
import { NO_TRACE } from "../../src/trace/events.ts";
import { smallTables } from "./small-tables.ts";

const SLOT = 1;

let tables: Tables;
let sent: Message[];
let questions: OpenQuestions;

beforeEach(() => {
  tables = smallTables({ requestSlots: 2, jobSlots: 1, blockCount: 8 });
  tables.requests[tables.request(SLOT) + REQUEST_GENERATION] = 5;
  sent = [];
  questions = open();
});

function open(): OpenQuestions {
  return new OpenQuestions({
    tables,
    trace: NO_TRACE,
    send: (actor, message) => {
      expect(actor).toBe(ACTOR_LOOKUP);
      sent.push(message);
    },
    readLookup: (slot) => Atomics.load(tables.requests, tables.request(slot) + REQUEST_LOOKUP_WORD),
  });
}

function publish(attempt: number, state: number): void {
  const at = tables.request(SLOT) + REQUEST_LOOKUP_WORD;
  Atomics.store(tables.requests, at, lookupWord(attempt, 1, state));
}

describe("questions", () => {
  test("a question is numbered, written down for a restarted lookup actor, and sent", () => {
    questions.ask(SLOT, 48, 2);
    questions.ask(SLOT, 64, 3);
    expect(questions.attempt(SLOT)).toBe(2);
    expect(sent).toEqual([
      { kind: "lookup", slot: SLOT, generation: 5, attempt: 1, tokens: 48, hashedBlocks: 2 },
      { kind: "lookup", slot: SLOT, generation: 5, attempt: 2, tokens: 64, hashedBlocks: 3 },
    ]);
    expect(tables.requests[tables.request(SLOT) + REQUEST_LOOKUP_ASKED_WORD]! >>> 16).toBe(2);
    expect(questions.outstanding(SLOT)).toBe(2);
    expect(questions.outstanding(0)).toBe(0);
  });

  test("only so many may be open as the mailboxes hold", () => {
    for (let count = 0; count < LOOKUPS_PER_REQUEST_MAX; count++) {
      expect(questions.full(SLOT)).toBe(false);
      questions.ask(SLOT, 48, 2);
    }
    expect(questions.full(SLOT)).toBe(true);
    expect(questions.closed(SLOT, 1, false)).toBe(true);
    expect(questions.full(SLOT)).toBe(false);
  });

  test("a discarded question is named, and its message still comes", () => {
    questions.ask(SLOT, 48, 2);
    questions.discard(SLOT);
    expect(sent.at(-1)).toEqual({ kind: "discardLookup", slot: SLOT, generation: 5, attempt: 1 });
    expect(questions.outstanding(SLOT)).toBe(1);
  });
});

describe("answers", () => {
  test("only the newest question's published answer counts", () => {
    questions.ask(SLOT, 48, 2);
    expect(questions.answer(SLOT)).toBe(NONE);
    publish(1, LOOKUP_HIT);
    expect(questions.answer(SLOT)).toBe(OUTCOME_HIT);
    questions.ask(SLOT, 48, 2);
    expect(questions.answer(SLOT)).toBe(NONE);
    publish(2, LOOKUP_IDLE);
    expect(questions.answer(SLOT)).toBe(NONE);
    publish(2, LOOKUP_MISS);
    expect(questions.answer(SLOT)).toBe(OUTCOME_MISS);
  });

  test("each message counts once; a second copy and one that nobody asked for do not", () => {
    expect(questions.closed(SLOT, 1, false)).toBe(false);
    questions.ask(SLOT, 48, 2);
    questions.ask(SLOT, 48, 2);
    expect(questions.closed(SLOT, 1, false)).toBe(true);
    expect(questions.closed(SLOT, 1, false)).toBe(false);
    expect(questions.outstanding(SLOT)).toBe(1);
    expect(questions.closed(SLOT, 2, true)).toBe(true);
    expect(questions.outstanding(SLOT)).toBe(0);
    expect(questions.closed(SLOT, 3, false)).toBe(false);
  });
});

describe("restarts", () => {
  test("a new lookup actor answers the newest question, unless it is answered", () => {
    questions.ask(SLOT, 48, 2);
    questions.ask(SLOT, 48, 2);
    questions.actorRestarted();
    expect(questions.outstanding(SLOT)).toBe(1);
    publish(2, LOOKUP_HIT);
    questions.actorRestarted();
    expect(questions.outstanding(SLOT)).toBe(0);
  });

  test("a new lookup actor does not answer again what its predecessor answered, though older questions were open", () => {
    questions.ask(SLOT, 48, 2);
    questions.discard(SLOT);
    questions.ask(SLOT, 48, 2);
    questions.discard(SLOT);
    publish(2, LOOKUP_IDLE);
    expect(questions.closed(SLOT, 2, false)).toBe(true);
    questions.actorRestarted();
    expect(questions.outstanding(SLOT)).toBe(0);
  });

  test("an awaited message counts although the count was forgotten", () => {
    questions.ask(SLOT, 48, 2);
    publish(1, LOOKUP_HIT);
    questions.actorRestarted();
    expect(questions.closed(SLOT, 1, false)).toBe(false);
    expect(questions.closed(SLOT, 1, true)).toBe(true);
    expect(questions.outstanding(SLOT)).toBe(0);
  });

  test("a lookup actor that was given up answers nothing", () => {
    questions.ask(SLOT, 48, 2);
    questions.actorGone();
    expect(questions.outstanding(SLOT)).toBe(0);
  });

  test("a successor, and the slot's next request, go on counting attempts, round 16 bits", () => {
    questions.ask(SLOT, 48, 2);
    questions.added(SLOT);
    expect(questions.outstanding(SLOT)).toBe(0);
    expect(questions.attempt(SLOT)).toBe(1);
    const at = tables.request(SLOT) + REQUEST_LOOKUP_ASKED_WORD;
    tables.requests[at] = lookupWord(0xffff, 0, LOOKUP_IDLE);
    const successor = open();
    expect(successor.attempt(SLOT)).toBe(0xffff);
    expect(successor.outstanding(SLOT)).toBe(0);
    successor.ask(SLOT, 48, 2);
    expect(successor.attempt(SLOT)).toBe(0);
    publish(0, LOOKUP_HIT);
    expect(successor.answer(SLOT)).toBe(OUTCOME_HIT);
  });
});
