/**
 * Goal: as test/integration/real-pool-deaths.test.ts, fifty deaths of each kind, at moments spread over all tokens of a round.
 * Method: the same rounds, one kind after the other; the engine's process also while lookups and loads are waited for.
 */
import { afterEach, test } from "vitest";
import { ACTOR_MODEL } from "../../src/actors/messages.ts";
import { MORTALS } from "../integration/support/deaths.ts";
import {
  actorDies,
  engineProcessDies,
  masterDies,
  ownerDies,
} from "../integration/support/pool-death-kinds.ts";
import { type PoolDeathWorld, startPoolDeathWorld } from "../integration/support/pool-deaths.ts";

const DEATHS = 50;
const MOMENTS = 100;
/** A part that dies again at once is started after 10 s. */
const TEST_TIMEOUT_MS = 1_500_000;

let world: PoolDeathWorld;
afterEach(async () => {
  await world.stop();
});

const throwing = MORTALS.filter((actor) => actor !== ACTOR_MODEL);
const CHILD = { engine_process: "child" };
const SYNCHRONOUS = { lookup_async: false, load_async: false };

test.each<[string, object, (death: number, moment: number) => Promise<void>]>([
  ["the master", {}, (_, moment) => masterDies(world, moment)],
  ["the owner", {}, (_, moment) => ownerDies(world, moment)],
  ["the engine's process", CHILD, (_, moment) => engineProcessDies(world, moment)],
  [
    "the engine's process, lookups and loads waited for",
    { ...CHILD, ...SYNCHRONOUS },
    (_, moment) => engineProcessDies(world, moment),
  ],
  [
    "actors, by the end of their threads",
    {},
    (death, moment) => actorDies(world, MORTALS[death % MORTALS.length] ?? 0, moment, "ended"),
  ],
  [
    "actors, by a throw",
    CHILD,
    (death, moment) => actorDies(world, throwing[death % throwing.length] ?? 0, moment, "throws"),
  ],
])(
  "fifty deaths of %s",
  async (_name, settings, die) => {
    world = await startPoolDeathWorld({ ...settings }, { seed: 2 });
    for (let death = 0; death < DEATHS; death++) await die(death, ((death * 37) % MOMENTS) - 1);
  },
  TEST_TIMEOUT_MS,
);
