/**
 * Goal: a lookup hashes the prompt in bounded pieces, asks for all prefixes in prefix order, and publishes the longest prefix; an
 * engine failure is never a miss; every question has exactly one lookupDone, over discards and deaths.
 * Method: real tables and the simulated engine on a virtual clock.
 */
import { describe, expect, test } from "vitest";

import { LookupActor, type LookupOptions } from "../../src/actors/lookup/lookup-actor.ts";
import type { Message } from "../../src/actors/messages.ts";
import * as layout from "../../src/blocks/layout.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { FigureNotes } from "../vectors/figures.ts";
import { ActorWorld, range, type WorldOptions } from "./store-world.ts";

interface Request {
  readonly slot: number;
  readonly generation: number;
  readonly hashPage: number;
}

function start(
  options: WorldOptions = {},
  settings: Partial<LookupOptions> = {},
): { world: ActorWorld; create: () => LookupActor; lookup: LookupActor } {
  const world = new ActorWorld(options);
  const create = (): LookupActor =>
    new LookupActor({
      tables: world.tables,
      rules: world.rules,
      keySpace: world.workers[0]!,
      ...settings,
    });
  return { world, create, lookup: create() };
}
function add(world: ActorWorld, promptTokens: number): Request {
  const added = world.slots.addRequest({
    tokens: range(0, promptTokens),
    tokensMax: promptTokens + 16,
  });
  if (!added.ok) throw new Error(added.remedy);
  const { slot, generation } = added;
  const at = world.tables.request(slot);
  return { slot, generation, hashPage: world.tables.requests[at + layout.REQUEST_HASH_PAGE]! };
}
/** Asks like the scheduler side: the question is in the table, then told by message. */
function ask(
  world: ActorWorld,
  { slot, generation }: Request,
  attempt: number,
  tokens: number,
  hashedBlocks = 0,
): void {
  const at = world.tables.request(slot);
  world.tables.requests[at + layout.REQUEST_LOOKUP_TOKENS] = tokens;
  world.tables.requests[at + layout.REQUEST_LOOKUP_HASHED_BLOCKS] = hashedBlocks;
  world.tables.requests[at + layout.REQUEST_LOOKUP_GENERATION] =
    world.tables.requests[at + layout.REQUEST_GENERATION]!;
  world.tables.requests[at + layout.REQUEST_LOOKUP_ASKED_WORD] = layout.lookupWord(
    attempt,
    0,
    layout.LOOKUP_SUBMITTED,
  );
  world.inbox.push({ kind: "lookup", slot, generation, attempt, tokens, hashedBlocks });
}
function answer(world: ActorWorld, { slot }: Request): Record<string, number> {
  const at = world.tables.request(slot);
  const word = world.tables.requests[at + layout.REQUEST_LOOKUP_WORD]!;
  return {
    attempt: layout.lookupAttempt(word),
    state: layout.lookupState(word),
    hit: world.tables.requests[at + layout.REQUEST_HIT_TOKENS]!,
  };
}
function hashRows(world: ActorWorld, request: Request, blocks: number): void {
  range(0, blocks).forEach((block) => world.writeHash(request.hashPage, block, block));
}
function dones(world: ActorWorld): Message[] {
  return world.sent.filter((message) => message.kind === "lookupDone");
}

describe("answers", () => {
  test("the longest prefix with all ranks and groups present", () => {
    const { world, lookup } = start({ dimensions: { groups: 2 }, ranks: 3 });
    const request = add(world, 60);
    hashRows(world, request, 15);
    for (const rank of range(0, 3))
      for (const group of [0, 1]) world.fillPool(request.hashPage, range(0, 12), rank, group);
    world.pool.remove(world.key(2, 1, request.hashPage, 9));
    ask(world, request, 1, 60);
    world.run(lookup, world.context());
    expect(answer(world, request)).toEqual({ attempt: 1, state: layout.LOOKUP_HIT, hit: 36 });
    expect(dones(world)).toEqual([
      { kind: "lookupDone", slot: request.slot, generation: request.generation, attempt: 1 },
    ]);
    expect(lookup.idle()).toBe(true);
  });

  test("a hit on the whole prompt leaves the last token to compute; nothing there is a miss", () => {
    const { world, lookup } = start();
    const whole = add(world, 32);
    const none = add(world, 33);
    const short = add(world, 3);
    hashRows(world, whole, 8);
    world.fillPool(whole.hashPage, range(0, 8));
    ask(world, whole, 4, 32);
    ask(world, none, 7, 33);
    ask(world, short, 9, 3);
    world.run(lookup, world.context());
    expect(answer(world, whole)).toEqual({ attempt: 4, state: layout.LOOKUP_HIT, hit: 28 });
    expect(answer(world, none)).toEqual({ attempt: 7, state: layout.LOOKUP_MISS, hit: 0 });
    expect(answer(world, short)).toEqual({ attempt: 9, state: layout.LOOKUP_MISS, hit: 0 });
    expect(lookup.counters).toMatchObject({ lookups: 3, hits: 1, misses: 2 });
  });

  test("one batch where it fits, otherwise several in prefix order that stop at the first miss", () => {
    const { world, lookup } = start(
      { shape: { batchSlots: 4, keysPerBatchMax: 8 } },
      { batchesPerLookupMax: 1 },
    );
    const fits = add(world, 32);
    ask(world, fits, 1, 32);
    const context = world.context();
    world.run(lookup, context);
    expect(lookup.counters.batches).toBe(1);
    const long = add(world, 400);
    hashRows(world, long, 100);
    world.fillPool(long.hashPage, range(0, 20));
    ask(world, long, 1, 400);
    world.run(lookup, context);
    expect(lookup.counters.batches).toBe(1 + 3);
    expect(answer(world, long)).toMatchObject({ hit: 80 });
  });

  test("more prefixes than a batch has keys", () => {
    const { world, lookup } = start({ ranks: 7, shape: { batchSlots: 3, keysPerBatchMax: 4 } });
    const request = add(world, 40);
    hashRows(world, request, 10);
    range(0, 7).forEach((rank) => world.fillPool(request.hashPage, range(0, 6), rank));
    ask(world, request, 1, 40);
    world.run(lookup, world.context());
    expect(answer(world, request)).toMatchObject({ hit: 24 });
  });

  test("a chunk of several hash blocks is named by its last one", () => {
    const { world, lookup } = start({ dimensions: { blockSize: 16, hashBlockSize: 4 } });
    const request = add(world, 90);
    hashRows(world, request, 22);
    world.fillPool(request.hashPage, range(0, 3));
    ask(world, request, 1, 90);
    world.run(lookup, world.context());
    expect(answer(world, request)).toMatchObject({ hit: 48 });
  });
});

describe("hashing", () => {
  test("a long prompt is hashed in pieces, a short one is not kept waiting", () => {
    const { world, lookup } = start({}, { hashBlocksPerStep: 256 });
    const long = add(world, 4000);
    const short = add(world, 20);
    for (const { slot, generation } of [long, short])
      world.inbox.push({ kind: "hashRequest", slot, generation });
    const context = world.context();
    expect(world.step(lookup, context)).toBe(world.clock.nowMs);
    world.run(lookup, context);
    expect(world.sent).toEqual([
      { kind: "hashed", slot: short.slot, generation: short.generation, blocks: 5 },
      { kind: "hashed", slot: long.slot, generation: long.generation, blocks: 1000 },
    ]);
    expect(Math.max(...world.hashed.map(([from, to]) => to - from))).toBe(256);
    expect(lookup.idle()).toBe(true);
  });

  test("a question that brings the hashes answers whoever has asked for them", () => {
    const { world, lookup } = start();
    const request = add(world, 40);
    hashRows(world, request, 10);
    const { slot, generation } = request;
    world.inbox.push({ kind: "hashRequest", slot, generation });
    ask(world, request, 1, 40, 10);
    world.run(lookup, world.context());
    expect(world.sent.filter(({ kind }) => kind === "hashed")).toEqual([
      { kind: "hashed", slot, generation, blocks: 10 },
    ]);
    expect(dones(world)).toHaveLength(1);
  });

  test("a lookup hashes what it needs once; the prompt is not hashed again for `hashed`", () => {
    const { world, lookup } = start();
    const { slot, generation } = add(world, 40);
    ask(world, { slot, generation, hashPage: 0 }, 1, 40);
    world.inbox.push({ kind: "hashRequest", slot, generation });
    const context = world.context();
    world.run(lookup, context);
    world.inbox.push({ kind: "hashRequest", slot, generation });
    world.run(lookup, context);
    expect(world.hashed).toEqual([[0, 10]]);
    expect(world.sent.map((message) => message.kind)).toEqual(["hashed", "lookupDone", "hashed"]);
  });

  test("what the scheduler side has hashed is not hashed again, by a successor neither", () => {
    const { world, create, lookup } = start();
    const request = add(world, 40);
    hashRows(world, request, 13);
    world.fillPool(request.hashPage, range(0, 13));
    ask(world, request, 1, 52, 13);
    world.run(lookup, world.context());
    expect(answer(world, request)).toEqual({ attempt: 1, state: layout.LOOKUP_HIT, hit: 48 });
    ask(world, request, 2, 52, 13);
    while (world.inbox.length > 0) world.inbox.pop();
    world.run(create(), world.context(2));
    expect(answer(world, request)).toEqual({ attempt: 2, state: layout.LOOKUP_HIT, hit: 48 });
    expect(world.hashed).toEqual([]);
  });

  test("blocks past the prompt that nobody has hashed yet are neither hashed nor asked for", () => {
    const { world, lookup } = start();
    const request = add(world, 40);
    hashRows(world, request, 13);
    world.fillPool(request.hashPage, range(0, 13));
    ask(world, request, 1, 52);
    world.run(lookup, world.context());
    expect(world.hashed).toEqual([[0, 10]]);
    expect(answer(world, request)).toEqual({ attempt: 1, state: layout.LOOKUP_HIT, hit: 40 });
  });

  test("a slot that was given back is not written to", () => {
    const { world, lookup } = start({}, { hashBlocksPerStep: 16 });
    const first = add(world, 4000);
    const { slot, generation } = first;
    ask(world, first, 1, 4000);
    const context = world.context();
    world.step(lookup, context);
    world.inbox.push({ kind: "discardLookup", slot, generation, attempt: 1 });
    world.step(lookup, context);
    expect(dones(world)).toHaveLength(1);
    world.slots.release(slot);
    const pieces = world.hashed.length;
    world.run(lookup, context);
    expect(world.hashed.length).toBe(pieces);
    expect(lookup.idle()).toBe(true);
  });
});

describe("failures and discards", () => {
  test.each([
    ["nothing", {}, "ok", 0],
    ["every key", { keyResult: () => EngineCode.ENGINE_ERROR }, "ok", 0],
    ["the batch", { batchStatus: () => EngineCode.ENGINE_ERROR }, "error", 8],
  ])(
    "when %s fails, vLLM's figures of the batch say so as vLLM's do",
    (_, faults, status, failed) => {
      const figures = new FigureNotes();
      const { world, lookup } = start({}, { metrics: figures });
      const request = add(world, 32);
      ask(world, request, 1, 32);
      world.faults = faults;
      world.run(lookup, world.context());
      expect(figures.noted).toEqual({ lookup_exists: [{ keys: 8, bytes: 0, status, failed }] });
    },
  );

  test.each([
    [EngineCode.ENGINE_ERROR, layout.LOOKUP_ENGINE_ERROR],
    [EngineCode.ENGINE_DOWN, layout.LOOKUP_ENGINE_DOWN],
    [EngineCode.CLOSED, layout.LOOKUP_ENGINE_DOWN],
  ])("status %i is state %i, for a batch and for a key", (code, state) => {
    for (const faults of [{ batchStatus: () => code }, { keyResult: () => code }]) {
      const { world, lookup } = start();
      const request = add(world, 100);
      ask(world, request, 2, 100);
      world.faults = faults;
      world.run(lookup, world.context());
      expect(answer(world, request)).toEqual({ attempt: 2, state, hit: 0 });
      expect(dones(world)).toHaveLength(1);
    }
  });

  test.each([
    [15, layout.LOOKUP_HIT, 12],
    [3, layout.LOOKUP_HIT, 12],
    [2, layout.LOOKUP_ENGINE_ERROR, 0],
  ])("key 3 is absent and key %i fails: state %i", (failing, state, hit) => {
    // Without delays the keys of both batches are asked for in order.
    const { world, lookup } = start({ delayMsMax: 0 });
    const request = add(world, 64);
    hashRows(world, request, 16);
    world.fillPool(request.hashPage, range(0, 3));
    ask(world, request, 1, 64);
    let asked = 0;
    world.faults = {
      keyResult: () => (asked++ === failing && failing !== 3 ? EngineCode.ENGINE_ERROR : 0),
    };
    world.run(lookup, world.context());
    expect(asked).toBe(16);
    expect(answer(world, request)).toEqual({ attempt: 1, state, hit });
  });

  test("a discarded lookup is answered after its batches, without an answer; the next question is independent", () => {
    const { world, lookup } = start({ delayMsMax: 100 });
    const request = add(world, 200);
    const { slot, generation } = request;
    hashRows(world, request, 50);
    world.fillPool(request.hashPage, range(0, 10));
    const context = world.context();
    ask(world, request, 1, 200);
    world.step(lookup, context);
    world.inbox.push({ kind: "discardLookup", slot, generation, attempt: 1 });
    ask(world, request, 2, 200);
    world.step(lookup, context);
    expect(dones(world)).toEqual([]);
    world.run(lookup, context);
    expect(
      dones(world)
        .map((message) => ("attempt" in message ? message.attempt : -1))
        .toSorted((left, right) => left - right),
    ).toEqual([1, 2]);
    expect(answer(world, request)).toEqual({ attempt: 2, state: layout.LOOKUP_HIT, hit: 40 });
    world.inbox.push({ kind: "discardLookup", slot, generation, attempt: 2 });
    world.run(lookup, context);
    expect(lookup.counters).toMatchObject({ discarded: 1, lateDiscards: 1 });
    expect(dones(world)).toHaveLength(2);
  });

  test("wrong generations and unknown slots are counted and dropped", () => {
    const { world, lookup } = start();
    const { slot, generation } = add(world, 16);
    world.inbox.push(
      { kind: "hashRequest", slot, generation: generation + 1 },
      { kind: "lookup", slot, generation: generation - 1, attempt: 1, tokens: 16, hashedBlocks: 0 },
      { kind: "lookup", slot: 99, generation, attempt: 1, tokens: 16, hashedBlocks: 0 },
      { kind: "discardLookup", slot: 5, generation, attempt: 1 },
      { kind: "save", job: 0, ticket: 0, worker: 0 },
    );
    world.run(lookup, world.context());
    expect(lookup.counters.staleMessages).toBe(5);
    expect(world.sent).toEqual([]);
  });

  test("many lookups through a small channel", () => {
    const { world, lookup } = start({ shape: { batchSlots: 1, keysPerBatchMax: 3 } });
    const requests = range(0, 8).map((index) => add(world, 20 + 9 * index));
    requests.forEach((request, index) => {
      hashRows(world, request, 30);
      world.fillPool(request.hashPage, range(0, 3 + index));
      ask(world, request, index + 1, 20 + 9 * index);
    });
    world.run(lookup, world.context());
    requests.forEach((request, index) =>
      expect(answer(world, request)).toMatchObject({ attempt: index + 1, hit: 4 * (3 + index) }),
    );
    expect(lookup.counters.channelFull).toBeGreaterThan(0);
  });

  test("after stop questions are answered at once and what runs ends by the deadline", () => {
    const { world, lookup } = start({ delayMsMax: 1000 });
    const [first, second] = [add(world, 40), add(world, 40)];
    const context = world.context();
    ask(world, first, 1, 40);
    world.inbox.push({ kind: "stop", deadlineMs: 10 });
    ask(world, second, 1, 40);
    const { slot, generation } = second;
    world.inbox.push({ kind: "hashRequest", slot, generation });
    world.step(lookup, context);
    expect(answer(world, second)).toMatchObject({ state: layout.LOOKUP_ENGINE_DOWN });
    expect(world.sent.map((message) => message.kind)).toEqual(["lookupDone", "hashed"]);
    world.run(lookup, context);
    expect(dones(world)).toHaveLength(2);
    expect(lookup.idle()).toBe(true);
  });
});

describe("death", () => {
  test("the successor answers what was asked and not answered, whenever its predecessor died", () => {
    for (let events = 0; events < 40; events++) {
      const { world, create, lookup } = start({
        shape: { batchSlots: 2, keysPerBatchMax: 4 },
        seed: events + 5,
      });
      const requests = range(0, 4).map((index) => add(world, 30 + 10 * index));
      requests.forEach((request, index) => {
        hashRows(world, request, 20);
        world.fillPool(request.hashPage, range(0, index + 2));
        ask(world, request, 3, 30 + 10 * index);
      });
      const context = world.context(1);
      world.step(lookup, context);
      for (let count = 0; count < events && world.clock.nextDueMs() < Infinity; count++) {
        world.clock.nowMs = world.clock.nextDueMs();
        world.clock.runDue();
        world.step(lookup, context);
      }
      const answered = dones(world).length;
      const second = create();
      // A message that the predecessor had not read yet tells what the table has told already.
      const { slot, generation } = requests[0]!;
      world.inbox.push({
        kind: "lookup",
        slot,
        generation,
        attempt: 3,
        tokens: 30,
        hashedBlocks: 0,
      });
      const next = world.context(2);
      world.run(second, next);
      const repeated = second.counters.lookups + answered - 4;
      expect(dones(world)).toHaveLength(4 + repeated);
      expect(repeated).toBeLessThanOrEqual(1);
      requests.forEach((request, index) =>
        expect(answer(world, request)).toEqual({
          attempt: 3,
          state: layout.LOOKUP_HIT,
          hit: 4 * (index + 2),
        }),
      );
      expect(second.idle()).toBe(true);
    }
  });

  test("a lookup that was given up is not asked again; its lookupDone is repeated", () => {
    const { world, create, lookup } = start();
    const request = add(world, 40);
    const { slot, generation } = request;
    const context = world.context(1);
    ask(world, request, 6, 40);
    world.inbox.push({ kind: "discardLookup", slot, generation, attempt: 6 });
    world.run(lookup, context);
    const second = create();
    world.run(second, world.context(2));
    expect(second.counters.lookups).toBe(0);
    expect(dones(world)).toHaveLength(2);
  });

  test("an older question that is still in the mailbox does not hide the newest answer", () => {
    const { world, create } = start();
    const request = add(world, 40);
    const { slot, generation } = request;
    ask(world, request, 5, 40);
    world.inbox.push({ kind: "discardLookup", slot, generation, attempt: 5 });
    ask(world, request, 6, 40);
    world.run(create(), world.context(2));
    expect(answer(world, request)).toMatchObject({ attempt: 6, state: layout.LOOKUP_MISS });
    expect(dones(world)).toHaveLength(2);
  });
});
