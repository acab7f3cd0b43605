import { expect } from "vitest";
import { engineProcesses } from "./mortal-pool.ts";
import { generate, promptOf } from "./generate.ts";
import { restarts } from "./gauges.ts";
import { dropLocalCache } from "./pool.ts";
import {
  disturbedRound,
  engineStatus,
  expectEngineDown,
  expectShown,
  expectUsed,
  type PoolDeathWorld,
  untilOpen,
} from "./pool-deaths.ts";

/** The master is killed after `dieAt` tokens; it comes back at the same port, knowing no key. */
export async function masterDies(world: PoolDeathWorld, dieAt: number): Promise<void> {
  const { reopenings } = engineStatus(world);
  await disturbedRound(world, dieAt, () => world.pool.killMaster());
  await expectEngineDown(world);
  await world.pool.startMaster();
  await untilOpen(world, reopenings + 1);
  await expectUsed(world);
  await expectShown(world, "open");
}

/** The owner is killed after `dieAt` tokens; another one comes. The engine stays open: only its values have gone. */
export async function ownerDies(world: PoolDeathWorld, dieAt: number): Promise<void> {
  const { reopenings } = engineStatus(world);
  await disturbedRound(world, dieAt, () => world.pool.killOwner());
  await world.pool.startOwner();
  await expectUsed(world);
  expect(engineStatus(world)).toMatchObject({ state: "open", reopenings });
}

/** The engine's process is killed after `dieAt` tokens; another one is started by itself. */
export async function engineProcessDies(world: PoolDeathWorld, dieAt: number): Promise<void> {
  const { reopenings } = engineStatus(world);
  const before = engineProcesses();
  expect(before).toHaveLength(1);
  await disturbedRound(world, dieAt, () => {
    for (const pid of before) process.kill(pid, "SIGKILL");
  });
  await untilOpen(world, reopenings + 1);
  await expectUsed(world);
  const after = engineProcesses();
  expect(after).toHaveLength(1);
  expect(after).not.toEqual(before);
}

/** An actor dies after `dieAt` tokens; its successor goes on. */
export async function actorDies(
  world: PoolDeathWorld,
  actor: number,
  dieAt: number,
  how: "ended" | "throws",
): Promise<void> {
  const { application } = world;
  const { runtime } = application;
  const [before, epoch] = [restarts(runtime, actor), runtime.supervisor.epoch(actor)];
  await disturbedRound(world, dieAt, () => {
    if (how === "ended") return runtime.supervisor.kill(actor);
    runtime.supervisor.fail(actor);
    return undefined;
  });
  // An actor that throws does so when it takes a message: a load and a save bring one to each.
  if (runtime.supervisor.epoch(actor) === epoch) {
    const cacheSalt = `last message ${epoch} of ${actor}`;
    for (const _ of ["saved", "loaded"]) {
      await dropLocalCache(application);
      await generate(application, promptOf(application, 80), { cacheSalt, maxTokens: 1 });
    }
  }
  await expect
    .poll(() => runtime.supervisor.epoch(actor), { timeout: 120_000, interval: 5 })
    .toBe(epoch + 1);
  await expect.poll(() => runtime.healthy(), { timeout: 120_000, interval: 5 }).toBe(true);
  expect(restarts(runtime, actor)).toBe(before + 1);
  await expectUsed(world);
}
