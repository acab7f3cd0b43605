/**
 * Goal: the real pool's master, its owner, the engine's process and any actor may die amid saves and loads: every request ends
 * with the answer of a run without a pool, nobody waits for the dead, nothing leaks, and the pool is used again afterwards.
 * Method: a whole runtime on a real master and owner, its engine in this process or in one of its own; ten concurrent requests,
 * half of them loading and half saving, while one part is killed with signal 9 (or, of actors, its thread ended, or made to
 * throw); then the part is started again.
 */
import { afterEach, test } from "vitest";
import { ACTOR_MODEL, ACTOR_SAVER } from "../../src/actors/messages.ts";
import { MORTALS } from "./support/deaths.ts";
import { actorDies, engineProcessDies, masterDies, ownerDies } from "./support/pool-death-kinds.ts";
import { type PoolDeathWorld, startPoolDeathWorld } from "./support/pool-deaths.ts";

/** After how many tokens of all requests a part dies; -1: just after the requests were sent. */
const MOMENTS = [-1, 0, 7, 31, 80];
const TEST_TIMEOUT_MS = 120_000;

let world: PoolDeathWorld;
afterEach(async () => {
  await world.stop();
});

test(
  "the engine in this process",
  async () => {
    world = await startPoolDeathWorld();
    const throwing = MORTALS.filter((actor) => actor !== ACTOR_MODEL);
    for (const [index, moment] of MOMENTS.entries()) {
      await actorDies(world, MORTALS[index % MORTALS.length] ?? 0, moment, "ended");
      await actorDies(world, throwing[index % throwing.length] ?? 0, moment, "throws");
      await masterDies(world, moment);
    }
    // Owners that die again and again, and every loaded byte compared: real-pool-soak.test.ts.
    for (const moment of [0, 31]) await ownerDies(world, moment);
  },
  TEST_TIMEOUT_MS,
);

test(
  "the engine in a process of its own",
  async () => {
    world = await startPoolDeathWorld({ engine_process: "child" });
    for (const moment of MOMENTS) await engineProcessDies(world, moment);
    await masterDies(world, 7);
    await ownerDies(world, 7);
    for (const how of ["ended", "throws"] as const) await actorDies(world, ACTOR_SAVER, 7, how);
  },
  TEST_TIMEOUT_MS,
);
