/**
 * Goal: the front end hands every token over once and in order, whatever the scheduler does or fails to do, and bounds what
 * waits.
 * Method: real tables and mailboxes with a scheduler double that loses announcements, repeats messages, dies with a claimed
 * record, and answers late.
 */
import { describe, expect, test, vi } from "vitest";
import { Mailbox } from "../../src/actors/mailbox/mailbox.ts";
import { mailboxCapacities } from "../../src/actors/plan.ts";
import {
  ACTOR_FRONT_END,
  ACTOR_MODEL,
  ACTOR_SCHEDULER,
  FINISH_ABORTED,
  FINISH_ERROR,
  FINISH_LENGTH,
  FINISH_STOP,
  OUTCOME_HIT,
} from "../../src/actors/messages.ts";
import { logprobRows } from "../../src/blocks/capacities.ts";
import { REQUEST_FLAG_ABORTED, REQUEST_FLAGS } from "../../src/blocks/layout.ts";
import { COUNTERS, GAUGES } from "../../src/trace/counters.ts";
import type {
  FrontEndRequest,
  RequestHandle,
  RequestListener,
  RequestSummary,
  SubmitRefusal,
} from "../../src/serving/front-end-types.ts";
import { foldSeed } from "../../src/serving/live-request.ts";
import { turns, World } from "./serving-support.ts";

const request = (more: Partial<FrontEndRequest> = {}): FrontEndRequest => ({
  id: "request-1",
  promptTokens: Int32Array.of(10, 11, 12),
  maxTokens: 8,
  temperature: 0,
  topP: 1,
  seed: 1,
  ...more,
});

class Recorder implements RequestListener {
  readonly tokens: number[] = [];
  readonly indexes: number[] = [];
  readonly logprobs: number[] = [];
  readonly tops: unknown[] = [];
  readonly hashes: string[] = [];
  readonly summaries: RequestSummary[] = [];
  token(...[token, index, logprob, top, hash]: Parameters<RequestListener["token"]>): void {
    expect(this.summaries).toHaveLength(0);
    this.tokens.push(token);
    this.indexes.push(index);
    this.logprobs.push(logprob);
    this.tops.push(top);
    this.hashes.push(hash);
  }
  finished(summary: RequestSummary): void {
    this.summaries.push(summary);
  }
}

function accepted(submitted: RequestHandle | SubmitRefusal): RequestHandle {
  if (!submitted.ok) throw new Error(`refused: ${submitted.reason}`);
  return submitted;
}

describe("front end", () => {
  test("tokens, log-probabilities and the end come through; the slot comes back", async () => {
    const world = new World();
    world.scheduler.answerTo = ([first]) => [first! + 1, first! + 2, first! + 3];
    world.scheduler.localTokens = 1;
    world.scheduler.poolTokens = 2;
    const recorder = new Recorder();
    const handle = accepted(world.frontEnd.submit(request({ logprobs: 2 }), recorder));
    expect(recorder.tokens).toEqual([]);
    expect(world.frontEnd.liveRequests).toBe(1);
    world.nowMs += 40;
    await turns();
    expect(recorder.tokens).toEqual([11, 12, 13]);
    expect(recorder.indexes).toEqual([0, 1, 2]);
    expect(recorder.logprobs).toEqual([-0.5, -1.5, -2.5]);
    expect(recorder.tops[1]).toEqual([
      { token: 12, logprob: -1.5 },
      { token: 13, logprob: -2.5 },
    ]);
    expect(recorder.hashes).toEqual(["00001234ffffffff", "00001235ffffffff", "00001236ffffffff"]);
    expect(recorder.summaries).toEqual([
      {
        reason: FINISH_STOP,
        outputTokens: 3,
        localTokens: 1,
        poolTokens: 2,
        lookupOutcome: OUTCOME_HIT,
        preemptions: 0,
        timeToFirstTokenMs: 40,
        failure: null,
      },
    ]);
    expect(world.frontEnd.idle()).toBe(true);
    expect(world.slots.freeSlots).toBe(8);
    expect(world.counters.value(COUNTERS.staleMessages + ACTOR_FRONT_END)).toBe(0);
    expect(world.frontEnd.requestId(handle.slot, handle.generation)).toBe("request-1");
    expect(world.frontEnd.requestId(handle.slot, handle.generation + 1)).toBeUndefined();
  });

  test("tokens that were never announced are read from the row at the next token and at the end", async () => {
    const world = new World();
    world.scheduler.hold = true;
    const recorder = new Recorder();
    world.frontEnd.submit(request({ logprobs: 1 }), recorder);
    await turns();
    const [running] = world.scheduler.running;
    world.scheduler.token(running!, 50);
    world.scheduler.token(running!, 51, false);
    world.scheduler.token(running!, 52, false);
    world.scheduler.token(running!, 53);
    world.scheduler.token(running!, 54, false);
    world.scheduler.finish(running!, FINISH_LENGTH);
    await turns();
    expect(recorder.tokens).toEqual([50, 51, 52, 53, 54]);
    expect(recorder.indexes).toEqual([0, 1, 2, 3, 4]);
    expect(recorder.logprobs.map(Number.isNaN)).toEqual([false, true, true, false, true]);
    expect(recorder.hashes[1]).toBe("");
    expect(recorder.summaries[0]?.outputTokens).toBe(5);
  });

  test.each(["message", "call"])(
    "a restart (%s) brings missed tokens at once and asks again",
    async (way) => {
      const world = new World();
      world.scheduler.hold = true;
      const recorder = new Recorder();
      world.frontEnd.submit(request(), recorder);
      await turns();
      const [running] = world.scheduler.running;
      world.scheduler.token(running!, 50);
      world.scheduler.token(running!, 51, false);
      if (way === "call") world.frontEnd.actorRestarted(ACTOR_SCHEDULER);
      else world.scheduler.send({ kind: "actorRestarted", actor: ACTOR_SCHEDULER, epoch: 2 });
      await turns();
      expect(recorder.tokens).toEqual([50, 51]);
      // The first token came through its message, with its hash, though the call overtook the wake.
      expect(recorder.hashes[0]).not.toBe("");
      world.scheduler.token(running!, 52);
      world.scheduler.finish(running!, FINISH_STOP);
      await turns();
      expect(recorder.tokens).toEqual([50, 51, 52]);
    },
  );

  test("a restart before the first token does not take the slot's last answer for this one", async () => {
    const world = new World({ requestSlots: 1 });
    world.scheduler.answerTo = () => [50, 51];
    world.frontEnd.submit(request(), new Recorder());
    await turns();
    world.scheduler.hold = true;
    const recorder = new Recorder();
    const handle = accepted(world.frontEnd.submit(request(), recorder));
    // The scheduler died before it took the request: its line of the record is as the last request left it.
    world.mailboxes[ACTOR_SCHEDULER]!.pop();
    world.frontEnd.actorRestarted(ACTOR_SCHEDULER);
    await turns();
    expect(recorder.tokens).toEqual([]);
    world.scheduler.hold = false;
    world.scheduler.answerTo = () => [60];
    world.scheduler.adopt(handle.slot, handle.generation);
    await turns();
    expect(recorder.tokens).toEqual([60]);
  });

  test("repeated, late and unknown messages are dropped and counted", async () => {
    const world = new World();
    world.scheduler.hold = true;
    const recorder = new Recorder();
    const { slot, generation } = accepted(world.frontEnd.submit(request(), recorder));
    await turns();
    const [running] = world.scheduler.running;
    world.scheduler.token(running!, 50);
    const repeated = {
      kind: "tokenGenerated",
      slot,
      generation,
      index: 0,
      token: 50,
      logprobF32: 0,
      logitsHashLow: 0,
      logitsHashHigh: 0,
      logprobRow: -1,
    } as const;
    world.scheduler.send(repeated);
    world.scheduler.send({ ...repeated, generation: generation + 1, index: 1 });
    world.scheduler.send({ kind: "slotReleased", slot: 5, generation: 1 });
    world.scheduler.send({ kind: "localCacheDropped", ticket: 99, blocks: 1 });
    world.scheduler.send({ kind: "stop", deadlineMs: 0 });
    world.scheduler.finish(running!, FINISH_STOP);
    world.scheduler.send({ ...repeated, index: 1 });
    await turns();
    expect(recorder.tokens).toEqual([50]);
    expect(recorder.summaries).toHaveLength(1);
    expect(world.counters.value(COUNTERS.staleMessages + ACTOR_FRONT_END)).toBe(6);
    expect(world.frontEnd.idle()).toBe(true);
  });

  test("abort: marked in the record, announced once, no more tokens, one end", async () => {
    const world = new World();
    world.scheduler.hold = true;
    const recorder = new Recorder();
    const handle = accepted(world.frontEnd.submit(request(), recorder));
    await turns();
    const [running] = world.scheduler.running;
    handle.abort();
    handle.abort();
    const flags = world.tables.requests[world.tables.request(handle.slot) + REQUEST_FLAGS]!;
    expect(flags & REQUEST_FLAG_ABORTED).toBe(REQUEST_FLAG_ABORTED);
    world.scheduler.token(running!, 50);
    await turns();
    expect(recorder.tokens).toEqual([]);
    expect(recorder.summaries.map(({ reason }) => reason)).toEqual([FINISH_ABORTED]);
    const aborts = world.scheduler.received.filter(({ kind }) => kind === "abortRequest");
    expect(aborts).toHaveLength(1);
    handle.abort();
    expect(world.frontEnd.idle()).toBe(true);
  });

  test("slots used up: first in, first out, bounded; an aborted one leaves the line", async () => {
    const world = new World({ requestSlots: 1, limits: { queuedRequestsMax: 3 } });
    world.scheduler.answerTo = ([first]) => [first!];
    const recorders = Array.from({ length: 5 }, () => new Recorder());
    const ended: number[] = [];
    const handles = recorders.map((recorder, index) => {
      const finished = recorder.finished.bind(recorder);
      recorder.finished = (summary) => {
        ended.push(index);
        finished(summary);
      };
      return world.frontEnd.submit(request({ promptTokens: Int32Array.of(index) }), recorder);
    });
    expect(handles.map(({ ok }) => ok)).toEqual([true, true, true, true, false]);
    expect(handles[4]).toMatchObject({ reason: "CAPACITY" });
    expect(world.counters.value(GAUGES.requestsWaiting)).toBe(3);
    accepted(handles[2]!).abort();
    expect(recorders[2]!.summaries).toMatchObject([{ reason: FINISH_ABORTED, failure: null }]);
    await turns(60);
    expect(ended).toEqual([2, 0, 1, 3]);
    expect(recorders[3]!.tokens).toEqual([3]);
    expect(world.frontEnd.idle()).toBe(true);
    expect(world.counters.value(GAUGES.requestsWaiting)).toBe(0);
  });

  test("a request that waits too long for a slot ends, the line goes on", async () => {
    const world = new World({ requestSlots: 1, limits: { queueTimeoutMs: 5 } });
    world.scheduler.hold = true;
    world.frontEnd.submit(request(), new Recorder());
    const recorder = new Recorder();
    world.frontEnd.submit(request(), recorder);
    await vi.waitFor(() => expect(recorder.summaries).toHaveLength(1));
    expect(recorder.summaries[0]).toMatchObject({ reason: FINISH_ERROR, failure: "QUEUE_TIMEOUT" });
    expect(world.frontEnd.queuedRequests).toBe(0);
    expect(world.counters.value(GAUGES.requestsWaiting)).toBe(0);
  });

  test("what can never fit is refused at once", () => {
    const world = new World({ tokensPerRequestMax: 32 });
    const submitted = world.frontEnd.submit(request({ maxTokens: 30 }), new Recorder());
    expect(submitted).toMatchObject({ ok: false, reason: "TOO_LONG" });
    expect(world.slots.freeSlots).toBe(8);
  });

  test("cache salt, sampling and flags reach the slot", () => {
    const world = new World();
    world.frontEnd.submit(
      request({
        cacheSalt: "a",
        noReuse: true,
        ignoreEndTokens: true,
        maxTokens: 30,
        seed: 2 ** 40,
      }),
      new Recorder(),
    );
    const [slot] = world.slots.requests;
    // One block: byte length, then (("cache_salt", "a"),) as a pickle: two texts, TUPLE2, TUPLE1, each memoized.
    const bytes = Buffer.from(slot!.extras!.buffer).subarray(4);
    expect(slot!.extras![0]).toBe(21);
    expect(bytes.toString("latin1", 0, 21)).toBe(
      "\x8c\x0acache_salt\x94\x8c\x01a\x94\x86\x94\x85\x94",
    );
    expect(slot).toMatchObject({ tokensMax: 33, flags: 3 });
    expect(slot!.sampling).toEqual({
      temperature: 0,
      topP: 1,
      seed: foldSeed(2 ** 40),
      logprobs: -1,
    });
    expect([0, 7, -7, 2 ** 31 - 1, -(2 ** 31)].map(foldSeed)).toEqual([
      0,
      7,
      -7,
      2 ** 31 - 1,
      -(2 ** 31),
    ]);
    expect(foldSeed(2 ** 40)).not.toBe(foldSeed(2 ** 41));
  });

  test("the local cache is dropped on demand; a restart asks again; silence is a timeout", async () => {
    const world = new World({ limits: { dropLocalCacheTimeoutMs: 30 } });
    await expect(world.frontEnd.dropLocalCache()).resolves.toBe(7);
    const lost = world.frontEnd.dropLocalCache();
    world.mailboxes[ACTOR_SCHEDULER]!.pop();
    world.frontEnd.actorRestarted(ACTOR_SCHEDULER);
    await expect(lost).resolves.toBe(7);
    const silent = world.frontEnd.dropLocalCache();
    world.mailboxes[ACTOR_SCHEDULER]!.pop();
    await expect(silent).rejects.toMatchObject({ code: "TIMEOUT" });
  });

  test("a record that a dead producer claimed and never published is passed over, after its death only", async () => {
    const world = new World();
    const recorder = new Recorder();
    world.scheduler.hold = true;
    world.frontEnd.submit(request(), recorder);
    await turns();
    const [running] = world.scheduler.running;
    const dying = new Mailbox(world.mailboxWords[ACTOR_FRONT_END]!, ACTOR_MODEL);
    const unfinished = {
      kind: "slotReleased",
      generation: 1,
      get slot(): number {
        throw new Error("died while it filled the record");
      },
    } as const;
    expect(() => dying.push(unfinished)).toThrow("died");
    world.scheduler.token(running!, 50);
    world.frontEnd.wake();
    await turns();
    expect(recorder.tokens).toEqual([]);
    dying.producerDied(ACTOR_MODEL);
    await vi.waitFor(() => expect(recorder.tokens).toEqual([50]));
  });

  test("closing fails what waits and ends what runs", async () => {
    const world = new World({ requestSlots: 1 });
    world.scheduler.hold = true;
    const [running, waiting] = [new Recorder(), new Recorder()];
    world.frontEnd.submit(request(), running);
    world.frontEnd.submit(request(), waiting);
    await turns();
    world.frontEnd.beginShutdown();
    expect(waiting.summaries).toMatchObject([{ failure: "CLOSED" }]);
    expect(world.frontEnd.submit(request(), new Recorder())).toMatchObject({ reason: "CLOSED" });
    expect(running.summaries).toEqual([]);
    world.frontEnd.close();
    expect(running.summaries).toMatchObject([{ reason: FINISH_ABORTED }]);
    await expect(world.frontEnd.dropLocalCache()).rejects.toMatchObject({ code: "CLOSED" });
  });

  test("the ring of log-probability rows holds more than the front end's mailbox", () => {
    for (const [slots, sequences] of [
      [1, 1],
      [64, 16],
      [1000, 64],
      [10_000, 256],
    ] as const) {
      const capacity = mailboxCapacities(slots, 4 * slots, sequences, 1)[ACTOR_FRONT_END]!;
      expect(logprobRows(slots, sequences)).toBeGreaterThan(capacity);
    }
  });
});
