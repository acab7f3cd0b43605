/**
 * Goal: values of another size under our keys close the pool for this member when they are the rule, and cut one load when they are not:
 * 8 different keys of 3 requests with one and the same wrong size, and none with the right one.
 * Method: the real loader on the simulated engine, with values that others have put; the runtime's look for its end on scripted answers.
 */
import { describe, expect, test } from "vitest";
import { LoaderActor } from "../../src/actors/loader/loader-actor.ts";
import { SizeEvidence, type WrongValue } from "../../src/actors/loader/size-evidence.ts";
import {
  OUTCOME_HIT,
  OUTCOME_IDENTITY_MISMATCH,
  type LoadDone,
} from "../../src/actors/messages.ts";
import { MismatchWords, readMembership } from "../../src/actors/mismatch-words.ts";
import { CONTROL_MEMBERSHIP_WORD, CONTROL_WORDS } from "../../src/actors/plan.ts";
import { SizeWatch } from "../../src/actors/runtime/size-watch.ts";
import * as layout from "../../src/blocks/layout.ts";
import {
  MEMBERSHIP_CLOSED,
  MEMBERSHIP_OPEN,
  MEMBERSHIP_PAUSED,
  MEMBERSHIP_UNKNOWN,
} from "../../src/connector/membership.ts";
import type { EngineCallReply } from "../../src/native/binding.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { NO_TRACE } from "../../src/trace/events.ts";
import { ActorWorld, BLOCK_BYTES, range } from "./store-world.ts";

const OTHER = 2 * BLOCK_BYTES;

class Loads {
  readonly events: string[] = [];
  readonly world = new ActorWorld({
    trace: { record: (event) => void this.events.push(event) },
  });
  readonly control = new SharedArrayBuffer(CONTROL_WORDS * 4);
  readonly mismatch = new MismatchWords(this.control);
  readonly loader = new LoaderActor({
    tables: this.world.tables,
    workers: this.world.workers,
    rules: this.world.rules,
    mismatch: this.mismatch,
  });
  readonly #context = this.world.context();
  #job = 0;

  /** A load of so many blocks, of which these chunks have values of so many bytes. */
  load(request: number, chunks: number, bytesOf: (chunk: number) => number): LoadDone | undefined {
    const { world } = this;
    const job = this.#job++ % 16;
    const blocks = range(1, chunks + 1);
    const hashPage = world.writeJob({
      job,
      kind: layout.JOB_KIND_LOAD,
      slot: request % 8,
      generation: 1 + Math.floor(request / 8),
      blocks: [blocks],
    });
    for (const chunk of range(0, chunks))
      world.pool.put(world.key(0, 0, hashPage, chunk), new Uint8Array(bytesOf(chunk)).fill(chunk));
    world.inbox.push({ kind: "load", job, ticket: 0, worker: 0 });
    world.run(this.loader, this.#context);
    world.tables.jobs[world.tables.job(job) + layout.JOB_LIVE_WORD] = 0;
    return world.sent.findLast((message) => message.kind === "loadDone");
  }
}

describe("one strange value", () => {
  test.each([0, 3, 6])("at chunk %i cuts the load there, and closes nothing", (strange) => {
    const loads = new Loads();
    const done = loads.load(0, 7, (chunk) => (chunk === strange ? OTHER : BLOCK_BYTES));
    expect(done).toMatchObject({ outcome: OUTCOME_IDENTITY_MISMATCH, badChunk: strange });
    for (const chunk of range(0, strange))
      expect([...loads.world.block(0, chunk + 1)]).toEqual(Array(BLOCK_BYTES).fill(chunk));
    expect(loads.mismatch.read()).toBeNull();
    expect(loads.loader.counters.wrongSizes).toBe(1);
  });
});

describe("values of another size as a rule", () => {
  test("8 keys of 3 requests close the pool, with both sizes and one of the keys; once", () => {
    const loads = new Loads();
    loads.load(0, 3, () => OTHER);
    loads.load(1, 3, () => OTHER);
    expect(loads.mismatch.read()).toBeNull();
    loads.load(2, 2, () => OTHER);
    expect(loads.mismatch.read()).toMatchObject({
      wantedBytes: BLOCK_BYTES,
      foundBytes: OTHER,
      prefix: 0,
    });
    expect(loads.events.filter((event) => event === "poolClosed")).toEqual(["poolClosed"]);
  });

  test.each<[string, (loads: Loads) => void]>([
    [
      "8 keys of 2 requests",
      (loads) => [0, 1].map((request) => loads.load(request, 4, () => OTHER)),
    ],
    [
      "7 keys of 7 requests",
      (loads) => range(0, 7).map((request) => loads.load(request, 1, () => OTHER)),
    ],
    [
      "sizes that differ",
      (loads) =>
        range(0, 12).map((request) =>
          loads.load(request, 4, (chunk) => OTHER + 4 * (request + chunk)),
        ),
    ],
    [
      "a value of the right size among them",
      (loads) =>
        range(0, 12).map((request) =>
          loads.load(request, 3, (chunk) => (chunk === 0 ? BLOCK_BYTES : OTHER)),
        ),
    ],
  ])("%s do not", (_name, act) => {
    const loads = new Loads();
    act(loads);
    expect(loads.mismatch.read()).toBeNull();
    expect(loads.events).not.toContain("poolClosed");
  });

  test("the same keys count once, however many requests ask for them", () => {
    const evidence = new SizeEvidence();
    const value = (key: number, slot: number): WrongValue => ({
      wantedBytes: 64,
      foundBytes: 128,
      prefix: 0,
      digest: Int32Array.of(key, 0, 0, 0, 0, 0, 0, 0),
      slot,
      generation: 1,
    });
    for (let request = 0; request < 50; request++)
      for (let key = 0; key < 7; key++) expect(evidence.wrong(value(key, request))).toBeNull();
    expect(evidence.wrong(value(7, 50))).toMatchObject({ wantedBytes: 64, foundBytes: 128 });
    // It begins anew.
    expect(evidence.wrong(value(8, 51))).toBeNull();
  });

  test("what is followed is bounded: the oldest of many sizes is forgotten", () => {
    const evidence = new SizeEvidence();
    const wrong = (foundBytes: number, key: number, slot: number): unknown =>
      evidence.wrong({
        wantedBytes: 64,
        foundBytes,
        prefix: 0,
        digest: Int32Array.of(key),
        slot,
        generation: 1,
      });
    for (let key = 0; key < 7; key++) wrong(100, key, key);
    for (let size = 0; size < 4; size++) wrong(200 + size, 0, 0);
    expect(wrong(100, 7, 7)).toBeNull();
  });
});

describe("closed for this member", () => {
  test("only where the identity has it open", () => {
    const loads = new Loads();
    const control = new Int32Array(loads.control);
    const memberships = [MEMBERSHIP_UNKNOWN, MEMBERSHIP_OPEN, MEMBERSHIP_CLOSED, MEMBERSHIP_PAUSED];
    const seen = (): number[] =>
      memberships.map((membership) => {
        control[CONTROL_MEMBERSHIP_WORD] = membership;
        return readMembership(control);
      });
    expect(seen()).toEqual(memberships);
    for (const request of range(0, 3)) loads.load(request, 3, () => OTHER);
    expect(seen()).toEqual([
      MEMBERSHIP_UNKNOWN,
      MEMBERSHIP_CLOSED,
      MEMBERSHIP_CLOSED,
      MEMBERSHIP_PAUSED,
    ]);
  });

  test.each<[string, Partial<EngineCallReply>, boolean]>([
    ["is gone", { status: EngineCode.OBJECT_NOT_FOUND }, true],
    ["has the right size", { status: 0, value: new Uint8Array(BLOCK_BYTES) }, true],
    ["has the right size, too large to be read", large(BLOCK_BYTES), true],
    ["has a wrong size", { status: 0, value: new Uint8Array(OTHER) }, false],
    ["has a wrong size, too large to be read", large(OTHER), false],
    ["is not told of", { status: EngineCode.ENGINE_DOWN }, false],
  ])("a key that %s opens it again: %o %s", async (_name, reply, opens) => {
    const loads = new Loads();
    for (const request of range(0, 3)) loads.load(request, 3, () => OTHER);
    const asked: string[] = [];
    const watch = new SizeWatch({
      calls: {
        call: (request) => {
          asked.push("key" in request ? request.key : "");
          const whole = { count: 0, value: new Uint8Array(0), keys: [], text: "", ...reply };
          return Promise.resolve(whole as EngineCallReply);
        },
      },
      mismatch: loads.mismatch,
      prefixes: loads.world.plans[0]?.prefixes ?? [],
      digestBytes: 32,
      timeoutMs: 100,
      trace: NO_TRACE,
      log: loads.world.context().log,
    });
    expect(watch.differences()).toEqual([
      { field: "bytes.valueBytes", ours: String(BLOCK_BYTES), theirs: String(OTHER) },
    ]);
    expect(await watch.look()).toBe(opens);
    expect(asked).toEqual([loads.world.key(0, 0, 0, 0)]);
    expect(watch.differences()).toHaveLength(opens ? 0 : 1);
    // Right values count as before, and so do wrong ones.
    expect(loads.load(20, 2, () => BLOCK_BYTES)).toMatchObject({ outcome: OUTCOME_HIT });
    if (!opens) return;
    for (const request of range(21, 24)) loads.load(request, 3, () => OTHER);
    expect(watch.differences()).toHaveLength(1);
  });
});

function large(count: number): Partial<EngineCallReply> {
  return { status: EngineCode.VALUE_TOO_LARGE, count };
}
