/**
 * Goal: the real pool's master, its owner and any actor may die amid saves and loads: every request ends with the answer of a
 * run without a pool, nobody waits for the dead, nothing leaks, and the pool is used again afterwards.
 * Method: a whole runtime on a real master and owner; ten concurrent requests, half of them loading and half saving, while one
 * part is killed with signal 9 (or, of actors, its thread ended, or made to throw); then the part is started again.
 */
import { afterAll, beforeAll, test } from "vitest";
import { ACTOR_MODEL } from "../../src/actors/messages.ts";
import { MORTALS } from "./support/deaths.ts";
import { actorDies, masterDies, ownerDies } from "./support/pool-death-kinds.ts";
import { type PoolDeathWorld, startPoolDeathWorld } from "./support/pool-deaths.ts";

/** After how many tokens of all requests a part dies; -1: just after the requests were sent. */
const MOMENTS = [-1, 0, 7, 31, 80];
const TEST_TIMEOUT_MS = 120_000;

let world: PoolDeathWorld;
beforeAll(async () => {
  world = await startPoolDeathWorld();
});
afterAll(async () => {
  await world.stop();
});

test(
  "actors' threads are ended",
  async () => {
    for (const [index, moment] of MOMENTS.entries()) {
      const actor = MORTALS[index % MORTALS.length] ?? 0;
      await actorDies(world, actor, moment, "ended");
    }
  },
  TEST_TIMEOUT_MS,
);

test(
  "actors throw in the middle of a step",
  async () => {
    const throwing = MORTALS.filter((actor) => actor !== ACTOR_MODEL);
    for (const [index, moment] of MOMENTS.entries())
      await actorDies(world, throwing[index % throwing.length] ?? 0, moment, "throws");
  },
  TEST_TIMEOUT_MS,
);

test(
  "the master is killed",
  async () => {
    for (const moment of MOMENTS) await masterDies(world, moment);
  },
  TEST_TIMEOUT_MS,
);

test(
  "the owner is killed",
  async () => {
    for (const moment of MOMENTS) await ownerDies(world, moment);
  },
  TEST_TIMEOUT_MS,
);
