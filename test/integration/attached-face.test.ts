/**
 * Goal: what `attachConnector` returns shows nothing of the runtime's insides, tells deaths and restarts, and dumps what is in hand.
 * Method: an embedded loop with real threads whose lookup actor is killed.
 */
import { expect, onTestFinished, test } from "vitest";
import { ACTOR_LOOKUP } from "../../src/actors/messages.ts";
import { EmbeddedLoop, tokens } from "./support/embedded.ts";

test("the face of an attached connector", async () => {
  const loop = await EmbeddedLoop.attach();
  const { attached, runtime } = loop;
  onTestFinished(async () => void (await attached.stop()));
  expect(Object.keys(attached).toSorted()).toEqual([
    "connector",
    "dump",
    "eventEndpoints",
    "healthy",
    "kvMemory",
    "kvStorages",
    "membership",
    "on",
    "publishEvents",
    "stop",
  ]);
  expect(attached.healthy()).toBe(true);
  const [told, cut]: [unknown[], unknown[]] = [[], []];
  attached.on("actorDied", (event) => told.push(event));
  attached.on("actorRestarted", (event) => told.push(event));
  const stopListening = attached.on("actorDied", (event) => cut.push(event));
  stopListening();
  await runtime.supervisor.kill(ACTOR_LOOKUP);
  expect(attached.healthy()).toBe(false);
  await expect.poll(() => told.length, { timeout: 120_000 }).toBe(2);
  expect(told).toEqual([
    { actor: "lookup", epoch: 1, error: expect.any(Error) as Error },
    { actor: "lookup", epoch: 2 },
  ]);
  expect(cut).toEqual([]);
  expect(attached.healthy()).toBe(true);

  attached.connector.scheduler.addRequest("one", tokens(40, 1));
  const unknown = "actorDead" as "actorDied";
  expect(() => attached.on(unknown, () => undefined)).toThrow(/Did you mean "actorDied"/);
  const busy = await attached.dump();
  expect(busy.requests.count).toBe(1);
  expect(
    busy.actors
      .filter(({ running, thread }) => running && thread === "own")
      .map(({ actor }) => actor),
  ).toEqual(["lookup", "loader", "saver"]);
  attached.connector.scheduler.requestFinished("one");
  loop.stepUntil(() => attached.connector.idle());
});
