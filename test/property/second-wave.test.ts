/**
 * Goal: what a first wave of requests has computed a second wave finds in the pool, however small the KV memory and the tables are,
 * however late the saver is, and whatever ends a request after its prefill. Method: random waves through the real scheduler and both
 * sides of the connector, over plain stand-ins; a naive model says that every whole block of each prompt is there.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { JOBS_PER_REQUEST_SLOT } from "../../src/blocks/capacities.ts";
import { ACTOR_LOOKUP, ACTOR_SAVER, ACTOR_SCHEDULER } from "../../src/actors/messages.ts";
import type { RequestId } from "../unit/scheduler-front-end.ts";
import { BLOCK } from "../unit/scheduler-stand-ins.ts";
import { promptOf, World } from "../unit/scheduler-world.ts";

interface Plan {
  readonly blockCount: number;
  readonly jobSlots: number;
  readonly tokensPerStepMax: number;
  readonly sequencesMax: number;
  readonly prompts: readonly number[];
  readonly outputs: readonly number[];
  /** By turn: whether the saver, the lookup actor work. */
  readonly saverWorks: readonly boolean[];
  readonly lookupWorks: readonly boolean[];
  /** By request: it is aborted as soon as it has its first token. */
  readonly aborted: readonly boolean[];
  readonly saveDecodeCache: boolean;
}

function worldOf(plan: Plan): World {
  return new World({
    dimensions: {
      requestSlots: plan.prompts.length,
      jobSlots: plan.jobSlots,
      blockCount: plan.blockCount,
    },
    scheduler: { tokensPerStepMax: plan.tokensPerStepMax, sequencesMax: plan.sequencesMax },
    settings: { saveDecodeCache: plan.saveDecodeCache },
  });
}

/** Runs until all have ended and nothing is in flight; then all actors work. */
function wave(world: World, plan: Plan, outputs: readonly number[], upset: boolean): RequestId[] {
  const ids = plan.prompts.map((tokens, index) =>
    world.add(promptOf(tokens, index + 1), outputs[index]!),
  );
  const open = new Set(ids);
  for (let turn = 0; turn < 4000 && open.size > 0; turn++) {
    const hold = (actor: number, works: readonly boolean[]): void => {
      if (!upset || turn > 300 || works[turn % works.length] === true) world.held.delete(actor);
      else world.held.add(actor);
    };
    hold(ACTOR_SAVER, plan.saverWorks);
    hold(ACTOR_LOOKUP, plan.lookupWorks);
    world.turn();
    for (const [index, id] of ids.entries()) {
      const { tokens, finished, released } = world.ended(id);
      const over = upset && plan.aborted[index] === true && finished.length === 0;
      if (over && tokens.length > 0) world.abort(id);
      if (released > 0) open.delete(id);
    }
  }
  expect(open.size).toBe(0);
  return ids;
}

function run(plan: Plan): World {
  const world = worldOf(plan);
  wave(world, plan, plan.outputs, true);
  world.settle();
  world.post(ACTOR_SCHEDULER, { kind: "dropLocalCache", ticket: 1 });
  world.settle();
  const second = wave(
    world,
    plan,
    plan.prompts.map(() => 1),
    false,
  );
  const found = second.map((id) => {
    const [end] = world.ended(id).finished;
    return (end?.poolTokens ?? 0) + (end?.localTokens ?? 0);
  });
  const naive = plan.prompts.map((tokens) => Math.floor((tokens - 1) / BLOCK) * BLOCK);
  expect(found).toEqual(naive);
  expect(world.scheduler.counters).toMatchObject({
    pinnedBlocks: 0,
    quarantinedBlocks: 0,
    lostSaves: 0,
  });
  return world;
}

const ALWAYS = [true];

test("requests that end right after their prefill, in a small pool whose saver is late", () => {
  const prompts = Array.from({ length: 12 }, () => 7 * BLOCK);
  const world = run({
    blockCount: 128,
    jobSlots: 24,
    tokensPerStepMax: 16,
    sequencesMax: 4,
    prompts,
    outputs: prompts.map(() => 1),
    saverWorks: [
      ...Array.from({ length: 40 }, () => false),
      ...Array.from({ length: 300 }, () => true),
    ],
    lookupWorks: ALWAYS,
    aborted: prompts.map(() => false),
    saveDecodeCache: false,
  });
  expect(world.scheduler.counters.savesAfterEnd).toBeGreaterThan(0);
});

test("random waves in random small pools: the second wave finds all that the first has computed", () => {
  const plans = fc.record({ requests: fc.integer({ min: 1, max: 12 }) }).chain(({ requests }) =>
    fc.record({
      blockCount: fc.integer({ min: 18, max: 80 }),
      // As many as there are in production: fewer would refuse loads, by name.
      jobSlots: fc.constant(JOBS_PER_REQUEST_SLOT * requests),
      tokensPerStepMax: fc.integer({ min: 3, max: 40 }),
      sequencesMax: fc.integer({ min: 1, max: 8 }),
      prompts: fc.array(fc.integer({ min: 1, max: 56 }), {
        minLength: requests,
        maxLength: requests,
      }),
      outputs: fc.array(fc.integer({ min: 1, max: 10 }), {
        minLength: requests,
        maxLength: requests,
      }),
      saverWorks: fc.array(fc.boolean(), { minLength: 1, maxLength: 60 }),
      lookupWorks: fc.array(fc.boolean(), { minLength: 1, maxLength: 20 }),
      aborted: fc.array(fc.boolean(), { minLength: requests, maxLength: requests }),
      saveDecodeCache: fc.boolean(),
    }),
  );
  const runs = Number(process.env["MOONCAKE_KV_RUNS"] ?? 150);
  fc.assert(
    fc.property(plans, (plan) => void run(plan)),
    { numRuns: runs },
  );
});
