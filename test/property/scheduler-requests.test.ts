/**
 * Goal: whatever is added, aborted, held back, failed and restarted, every request ends exactly once, with a prefix of the
 * model's truth when it was aborted and all of it otherwise, and nothing is left. Method: random scripts over the real
 * scheduler and connector sides, with few blocks and few prompts, so that everything shares and collides.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_MODEL,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
  FINISH_ABORTED,
  FINISH_LENGTH,
} from "../../src/actors/messages.ts";
import { REQUEST_FLAG_ABORTED, REQUEST_FLAGS } from "../../src/blocks/layout.ts";
import { promptOf, World } from "../unit/scheduler-world.ts";

const HELD = [ACTOR_LOOKUP, ACTOR_LOADER, ACTOR_SAVER, ACTOR_MODEL];

const action = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("add"), a: fc.nat(30), b: fc.nat(12) }) },
  {
    weight: 8,
    arbitrary: fc.record({ kind: fc.constant("turn"), a: fc.nat(5), b: fc.constant(0) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        "abort",
        "hold",
        "free",
        "drop",
        "fail",
        "time",
        "restart",
        "model",
        "die",
        "step",
      ),
      a: fc.nat(30),
      b: fc.nat(12),
    }),
  },
);

function run(actions: { kind: string; a: number; b: number }[], variant: Variant): void {
  const { loadAsync, lookupAsync, groups, pool } = variant;
  const blockCount = 19 * groups + 1;
  const world = new World({
    dimensions: { blockCount, groups },
    scheduler: { tokensPerStepMax: 16, sequencesMax: 3, loadAsync, lookupAsync },
    settings: { lookupAsync },
    pool,
  });
  const requests: { id: { slot: number; generation: number }; prompt: number[]; output: number }[] =
    [];
  for (const { kind, a, b } of actions) {
    if (kind === "add" && requests.filter(({ id }) => world.ended(id).released === 0).length < 12) {
      // Prompts share long prefixes: the same stream, cut at many lengths, with two kinds of ends.
      const prompt = [...promptOf(a + 1, 1), ...promptOf(b % 3, 2)];
      requests.push({ id: world.add(prompt, 1 + b), prompt, output: 1 + b });
    } else if (kind === "turn") for (let turn = 0; turn <= a; turn++) world.turn();
    else if (kind === "abort" && requests.length > 0) {
      const { id } = requests[a % requests.length]!;
      if (world.ended(id).released > 0) continue;
      Atomics.or(
        world.tables.requests,
        world.tables.request(id.slot) + REQUEST_FLAGS,
        REQUEST_FLAG_ABORTED,
      );
      world.abort(id);
    } else if (kind === "hold") world.held.add(HELD[a % 4]!);
    else if (kind === "free") world.held.delete(HELD[a % 4]!);
    else if (kind === "drop") world.post(ACTOR_SCHEDULER, { kind: "dropLocalCache", ticket: a });
    else if (kind === "fail") world.actors.failLoadsFrom = b;
    else if (kind === "time") world.nowMs += a * 2000;
    else if (kind === "restart") world.startScheduler();
    else if (kind === "die") world.diesAfter = 1 + b;
    else if (kind === "model") world.restartModel();
    else if (kind === "step") world.failSteps = b % 3;
  }
  world.held.clear();
  world.settle();
  world.diesAfter = Infinity;
  for (let round = 0; round < 4; round++) {
    world.nowMs += 31_000;
    world.settle();
  }
  for (const { id, prompt, output } of requests) {
    const { tokens, finished, released } = world.ended(id);
    expect(released).toBe(1);
    expect(finished.length).toBe(1);
    const truth = world.truth(prompt, output);
    expect(tokens).toEqual(truth.slice(0, tokens.length));
    expect([FINISH_LENGTH, FINISH_ABORTED]).toContain(finished[0]!.reason);
    if (finished[0]!.reason === FINISH_LENGTH) expect(tokens).toEqual(truth);
  }
  const { counters } = world.scheduler;
  expect(counters).toMatchObject({
    live: 0,
    pinnedBlocks: 0,
    quarantinedBlocks: 0,
    freeBlocks: blockCount - 1,
  });
  expect(world.memoryOfScheduler.pages.usedPages()).toBe(0);
}

interface Variant {
  readonly loadAsync: boolean;
  readonly lookupAsync: boolean;
  readonly groups: number;
  readonly pool: boolean;
}
const USUAL: Variant = { loadAsync: true, lookupAsync: true, groups: 1, pool: true };
const VARIANTS: readonly (readonly [string, Variant])[] = [
  ["loads and lookups in the background", USUAL],
  ["loads before the step", { ...USUAL, loadAsync: false }],
  ["lookups when a request's turn comes", { ...USUAL, lookupAsync: false }],
  ["two groups", { ...USUAL, groups: 2 }],
  ["no pool", { ...USUAL, pool: false }],
];

describe("any history", () => {
  for (const [name, variant] of VARIANTS)
    it(`ends every request once and right: ${name}`, () => {
      fc.assert(
        fc.property(fc.array(action, { maxLength: 60 }), (actions) => run(actions, variant)),
        { numRuns: 300 },
      );
    });
});
