/**
 * Goal: an actor may die at any moment; every request ends with the right answer, nothing leaks, and the death can be seen.
 * Method: the whole runtime; ten concurrent greedy requests, half of them loading from the pool and half computing and saving,
 * while one actor's thread is ended, or throws in the middle of a step. Answers are compared with undisturbed ones.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ACTOR_MODEL, ACTOR_NAMES } from "../../src/actors/messages.ts";
import { type DeathWorld, MORTALS, roundWithDeath, startDeathWorld } from "./support/deaths.ts";

/** After how many tokens of all requests the actor dies; -1: just after the requests were sent. */
const MOMENTS = [-1, 0, 7, 31, 80];

let world: DeathWorld;
let folder: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "actor-deaths-"));
  world = await startDeathWorld(join(folder, "trace.json"));
});
afterAll(async () => {
  expect(await world.application.stop()).toBe(0);
  const events = (JSON.parse(readFileSync(join(folder, "trace.json"), "utf8")) as Trace)
    .traceEvents;
  const deaths = events.filter(({ name }) => name === "actor died");
  expect(deaths.length).toBe(world.log.count("actor died"));
  rmSync(folder, { recursive: true });
});

interface Trace {
  readonly traceEvents: readonly { readonly name: string }[];
}

async function health(): Promise<number> {
  return (await fetch(`${world.application.server?.url ?? ""}/health`)).status;
}

test.each(MORTALS.map((actor) => [ACTOR_NAMES[actor], actor] as const))(
  "the %s actor's thread is ended",
  async (_name, actor) => {
    const { application, log } = world;
    for (const moment of MOMENTS) {
      const logged = log.count("actor died");
      await roundWithDeath(world, actor, moment, () => {
        void application.runtime.supervisor.kill(actor);
      });
      expect(log.count("actor died")).toBe(logged + 1);
      expect(log.count("actor restarted")).toBe(logged + 1);
      expect(await health()).toBe(200);
    }
    const metrics = await (await fetch(`${application.server?.url ?? ""}/metrics`)).text();
    const line = metrics
      .split("\n")
      .find(
        (each) =>
          each.startsWith("mooncake_kv_actor_restarts_total{") &&
          each.includes(`actor="${ACTOR_NAMES[actor]}"`),
      );
    expect(Number(line?.split(" ").at(-1))).toBe(MOMENTS.length);
  },
);

test.each(
  MORTALS.filter((actor) => actor !== ACTOR_MODEL).map(
    (actor) => [ACTOR_NAMES[actor], actor] as const,
  ),
)("the %s actor throws in the middle of a step", async (_name, actor) => {
  const { application, log } = world;
  for (const moment of [-1, 0]) {
    await roundWithDeath(world, actor, moment, () => application.runtime.supervisor.fail(actor));
    expect(log.lines.filter(({ text }) => text === "actor died").at(-1)?.fields).toMatchObject({
      actor: ACTOR_NAMES[actor],
      error: "the actor was told to fail",
    });
  }
});
