/**
 * Goal: control calls reach each actor's thread beside its messages, tell what is in hand, end in time when the thread is stuck
 * or dead, and go to the successor afterwards; the state dump names what a request waits for.
 * Method: a whole serving process without HTTP, the tiny model, real threads; a thread whose event loop stands still.
 */
import { Worker, MessageChannel } from "node:worker_threads";
import { expect, onTestFinished, test } from "vitest";
import { ActorControlClient } from "../../src/actors/control/actor-control.ts";
import {
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_MODEL,
  ACTOR_NAMES,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
} from "../../src/actors/messages.ts";
import { generate, promptOf } from "./support/generate.ts";
import { startServing } from "./support/serving.ts";

const ACTORS = [ACTOR_SCHEDULER, ACTOR_LOOKUP, ACTOR_LOADER, ACTOR_SAVER, ACTOR_MODEL];

test("every actor tells its counters, takes a log level and a step, and refuses a level that is none", async () => {
  const { application } = await startServing();
  onTestFinished(async () => void (await application.stop()));
  const { runtime } = application;
  await generate(application, promptOf(application, 64), { maxTokens: 4 });
  for (const actor of ACTORS) {
    const control = runtime.control(actor)!;
    await control.setLogLevel("warn");
    await control.step();
    await expect(control.setLogLevel("loud")).rejects.toThrow("no such log level");
    const counters = await control.counters();
    expect(Object.values(counters).every((value) => typeof value === "number")).toBe(true);
  }
  expect(await runtime.control(ACTOR_SCHEDULER)!.counters()).toMatchObject({
    requestsFinished: 1,
    tokensGenerated: 4,
  });
  expect((await runtime.control(ACTOR_LOOKUP)!.counters())["lookups"]).toBe(1);
  expect((await runtime.control(ACTOR_MODEL)!.counters())["steps"]).toBeGreaterThanOrEqual(4);
});

test("the dump of an idle process has nothing in hand, that of a busy one names the request and its state", async () => {
  const { application } = await startServing();
  onTestFinished(async () => void (await application.stop()));
  const running = generate(application, promptOf(application, 64), { maxTokens: 900 });
  let busy = await application.dumpState();
  const state = async (): Promise<unknown> => {
    busy = await application.dumpState();
    return busy.actors[ACTOR_SCHEDULER]!.inspection;
  };
  await expect
    .poll(state)
    .toMatchObject({ inHand: { requests: [{ state: "running", promptTokens: 64 }] } });
  expect(busy.frontEnd).toEqual({ live: 1, queued: 0 });
  expect(busy.requests.listed).toMatchObject([{ slot: expect.any(Number), promptTokens: 64 }]);
  expect(busy.actors.map(({ actor }) => actor)).toEqual(ACTOR_NAMES);
  // Also those on the caller's thread: nothing that runs is told as down.
  expect(busy.actors.filter(({ running }) => !running)).toEqual([]);
  await running;
  await expect.poll(async () => (await application.dumpState()).jobs.count).toBe(0);
  const idle = await application.dumpState();
  expect(idle.requests).toMatchObject({ count: 0, byState: {} });
  for (const { mailbox, batchesInFlight } of idle.actors) {
    expect(mailbox).toMatchObject({ messages: 0, full: 0, holes: 0 });
    expect(batchesInFlight?.count ?? 0).toBe(0);
  }
  expect(JSON.parse(JSON.stringify(idle))).toEqual(idle);
});

test("calls to a thread that dies are rejected, and the successor answers", async () => {
  const { application } = await startServing();
  onTestFinished(async () => void (await application.stop()));
  const { runtime } = application;
  const before = runtime.control(ACTOR_LOOKUP)!;
  await runtime.supervisor.kill(ACTOR_LOOKUP);
  await expect(before.counters()).rejects.toMatchObject({ code: "CLOSED" });
  await expect
    .poll(() => runtime.supervisor.running(ACTOR_LOOKUP), { timeout: 120_000 })
    .toBe(true);
  expect(runtime.control(ACTOR_LOOKUP)).not.toBe(before);
  expect(await runtime.control(ACTOR_LOOKUP)!.counters()).toMatchObject({ lookups: 0 });
});

test("a thread that stands still is named in time", async () => {
  const { port1, port2 } = new MessageChannel();
  const worker = new Worker("Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)", {
    eval: true,
    workerData: port2,
    transferList: [port2],
  });
  onTestFinished(async () => void (await worker.terminate()));
  const control = new ActorControlClient(port1, "saver", 50);
  await expect(control.inspect()).rejects.toMatchObject({
    code: "TIMEOUT",
    field: "saver actor",
    value: 50,
  });
  control.close();
});
