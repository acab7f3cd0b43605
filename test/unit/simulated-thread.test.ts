// Goal: a simulated thread steps when it is awake, due and not frozen, and its actor dies at exactly the context call that was
// drawn, with what it did before that call done. Method: a thread whose actor makes a known row of context calls in each step.
import { beforeEach, expect, test } from "vitest";

import type { SimulatedContext } from "../../src/actors/hosts/simulated/mortal-context.ts";
import { SimulatedThread } from "../../src/actors/hosts/simulated/thread.ts";
import type { Actor, ActorContext } from "../../src/actors/step.ts";
import { ACTOR_LOOKUP, ACTOR_SCHEDULER } from "../../src/actors/messages.ts";
import type { Tables } from "../../src/blocks/tables.ts";
import type { EngineChannel } from "../../src/store/engine.ts";

const TABLES = {} as Tables;
const INBOX = { next: () => null };
const NEXT_MS = 70;

let done: string[];
let thread: SimulatedThread;

/** Four calls that others see, and three that they do not. */
function step(context: ActorContext): number {
  context.trace.record("lookupAnswered", 0, 0, 0, 0);
  context.random();
  context.send(ACTOR_SCHEDULER, { kind: "actorGone", actor: ACTOR_LOOKUP });
  context.readLookup(0);
  context.hashBlocks(0, 0, 0, 0, 1);
  context.room(ACTOR_SCHEDULER);
  context.engine.release(3);
  return NEXT_MS;
}

function createContext(): SimulatedContext {
  const ignore = (): void => undefined;
  return {
    epoch: thread.epoch,
    nowMs: () => 0,
    random: () => done.push("random"),
    log: { debug: ignore, info: ignore, warn: ignore, error: ignore },
    trace: { record: () => done.push("record") },
    engine: thread.engine!,
    send: () => done.push("send"),
    room: () => done.push("room"),
    readLookup: () => done.push("readLookup"),
    hashBlocks: () => done.push("hashBlocks"),
  };
}

beforeEach(() => {
  done = [];
  thread = new SimulatedThread({
    actor: ACTOR_LOOKUP,
    attachEngine: () => ({ release: () => done.push("release") }) as unknown as EngineChannel,
    create: (epoch, context): Actor => {
      expect(context.epoch).toBe(epoch);
      return { step: () => step(context), idle: () => true };
    },
  });
  thread.revive(10, createContext);
});

const ALL = ["record", "random", "send", "readLookup", "hashBlocks", "room", "release"];

test("a new incarnation steps at once, then at its deadline or when it is woken", () => {
  expect(thread.dueMs()).toBe(10);
  expect(thread.step(INBOX, TABLES)).toBe(true);
  expect(done).toEqual(ALL);
  expect(thread.dueMs()).toBe(NEXT_MS);
  thread.wakeAt(40);
  thread.wakeAt(50);
  expect(thread.dueMs()).toBe(40);
  thread.step(INBOX, TABLES);
  expect(thread.dueMs()).toBe(NEXT_MS);
});

test("a frozen thread steps when the longest freeze is over", () => {
  thread.freezeUntil(90);
  thread.freezeUntil(80);
  expect(thread.dueMs()).toBe(90);
});

test.each([
  [1, []],
  [2, ["record", "random"]],
  [3, ["record", "random", "send", "readLookup"]],
  [4, ["record", "random", "send", "readLookup", "hashBlocks", "room"]],
])("it dies at call %i that others see", (calls, before) => {
  thread.dieAfter(calls);
  expect(thread.step(INBOX, TABLES)).toBe(false);
  expect(done).toEqual(before);
});

test("calls are counted over steps, and not for the next incarnation", () => {
  thread.dieAfter(6);
  expect(thread.step(INBOX, TABLES)).toBe(true);
  done = [];
  expect(thread.step(INBOX, TABLES)).toBe(false);
  expect(done).toEqual(["record", "random"]);
  thread.end();
  expect(thread.dueMs()).toBe(Infinity);
  thread.wakeAt(20);
  expect(thread.dueMs()).toBe(Infinity);
  thread.revive(30, createContext);
  expect([thread.epoch, thread.dueMs()]).toEqual([2, 30]);
  for (let count = 0; count < 5; count++) expect(thread.step(INBOX, TABLES)).toBe(true);
});

test("a fault of the actor's own is no simulated death", () => {
  thread.revive(10, () => ({
    ...createContext(),
    send: () => {
      throw new Error("mailbox is full");
    },
  }));
  expect(() => thread.step(INBOX, TABLES)).toThrow("mailbox is full");
});
