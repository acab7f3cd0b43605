/**
 * Goal: as test/integration/actor-deaths.test.ts, fifty deaths of each actor, at moments spread over all tokens of a round.
 * Method: the same rounds; every other death is a throw in the middle of a step where the actor has steps.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { ACTOR_MODEL, ACTOR_NAMES } from "../../src/actors/messages.ts";
import {
  type DeathWorld,
  MORTALS,
  roundWithDeath,
  startDeathWorld,
} from "../integration/support/deaths.ts";

const DEATHS = 50;
const MOMENTS = 100;

let world: DeathWorld;
beforeAll(async () => {
  world = await startDeathWorld();
});
afterAll(async () => {
  expect(await world.application.stop()).toBe(0);
});

test.each(MORTALS.map((actor) => [ACTOR_NAMES[actor], actor] as const))(
  "fifty deaths of the %s actor",
  async (_name, actor) => {
    const { supervisor } = world.application.runtime;
    for (let death = 0; death < DEATHS; death++) {
      const throws = death % 2 === 1 && actor !== ACTOR_MODEL;
      await roundWithDeath(world, actor, ((death * 37) % MOMENTS) - 1, () => {
        if (throws) supervisor.fail(actor);
        else void supervisor.kill(actor);
      });
    }
    expect(supervisor.epoch(actor)).toBe(DEATHS + 1);
  },
  600_000,
);
