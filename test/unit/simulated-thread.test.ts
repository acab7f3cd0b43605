// Goal: a simulated thread steps when it is awake, due and not frozen, and its actor dies at exactly the place that was drawn,
// a context call or an operation on a shared word, with what it did before done and nothing after. Method: a thread whose actor
// makes a known row of context calls, or of stores, in each step.
import { beforeEach, describe, expect, test } from "vitest";

import type { SimulatedContext } from "../../src/actors/hosts/simulated/mortal-context.ts";
import { SimulatedThread, type SimulatedActor } from "../../src/actors/hosts/simulated/thread.ts";
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
  thread = new SimulatedThread(
    {
      actor: ACTOR_LOOKUP,
      attachEngine: () => ({ release: () => done.push("release") }) as unknown as EngineChannel,
      create: (epoch, context): Actor => {
        expect(context.epoch).toBe(epoch);
        return { step: () => step(context), idle: () => true };
      },
    },
    [],
  );
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

describe("between two stores", () => {
  const words = new Int32Array(new SharedArrayBuffer(64));
  const genuine = { ...Object.getOwnPropertyDescriptors(Atomics) };

  /** A plain store between each two operations shows how far the actor got. */
  function operate(context: ActorContext): number {
    words[0] = 1;
    Atomics.store(words, 8, 1);
    words[0] = 2;
    Atomics.add(words, 8, 1);
    words[0] = 3;
    context.send(ACTOR_SCHEDULER, { kind: "actorGone", actor: ACTOR_LOOKUP });
    words[0] = 4;
    Atomics.compareExchange(words, 8, 2, 3);
    words[0] = Atomics.load(words, 8) + 2;
    return NEXT_MS;
  }

  function start(run: (context: ActorContext) => number, plan: Partial<SimulatedActor> = {}): void {
    words.fill(0);
    const create = (_epoch: number, context: ActorContext): Actor => ({
      step: () => run(context),
      idle: () => true,
    });
    thread = new SimulatedThread({ actor: ACTOR_LOOKUP, create, ...plan }, [words]);
    // The host's own operations inside of a call are not the actor's.
    const send = (): void => void Atomics.load(words, 0);
    thread.revive(10, () => ({ ...createContext(), send }));
  }

  test.each([
    [1, 1, 0],
    [2, 2, 1],
    [3, 3, 2],
    [4, 4, 2],
    [5, 4, 3],
  ])("it dies before operation %i", (places, plain, shared) => {
    start(operate);
    thread.dieAfter(places);
    expect(thread.step(INBOX, TABLES)).toBe(false);
    expect([words[0], words[8]]).toEqual([plain, shared]);
  });

  test("whatever happened, the operations are the genuine ones after a step", () => {
    start(operate);
    for (const places of [Infinity, 2, 9]) {
      thread.dieAfter(places);
      thread.step(INBOX, TABLES);
      expect(Object.getOwnPropertyDescriptors(Atomics)).toEqual(genuine);
    }
    expect(words[0]).toBe(5);
  });

  test("what catch and finally do after the death has not happened", () => {
    start((context) => {
      try {
        operate(context);
      } catch {
        words[1] = 1;
        try {
          Atomics.store(words, 9, 1);
        } finally {
          words[2] = 1;
        }
      }
      return NEXT_MS;
    });
    thread.dieAfter(2);
    expect(thread.step(INBOX, TABLES)).toBe(false);
    expect([...words.subarray(0, 10)]).toEqual([2, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
  });

  test("a death that the actor's code swallows is one all the same", () => {
    start((context) => {
      try {
        return operate(context);
      } catch {
        return NEXT_MS;
      }
    });
    thread.dieAfter(3);
    expect(thread.step(INBOX, TABLES)).toBe(false);
    expect(words[0]).toBe(3);
  });

  test("a successor may die while it is made, and the next one lives", () => {
    const made: number[] = [];
    start(operate, {
      create: (epoch, context): Actor => {
        Atomics.store(words, 12, epoch);
        made.push(epoch);
        return { step: () => operate(context), idle: () => true };
      },
    });
    thread.end();
    thread.dieAfter(1);
    expect(thread.revive(20, createContext)).toBe(false);
    expect([thread.epoch, thread.instance, thread.dueMs(), words[12]]).toEqual([
      2,
      undefined,
      Infinity,
      1,
    ]);
    thread.end();
    expect(thread.revive(30, createContext)).toBe(true);
    expect([thread.epoch, thread.dueMs(), words[12]]).toEqual([3, 30, 3]);
    expect(made).toEqual([1, 3]);
  });
});
