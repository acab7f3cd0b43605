/**
 * Goal: a loader or saver of planned jobs that dies at any moment leaves nothing behind: its successor answers each job that was
 * taken, those that waited for their turn too, and only when the engine touches none of its blocks.
 * Method: the actor is thrown away after every possible number of engine events; a successor attaches under the next epoch.
 */
import { describe, expect, test } from "vitest";
import { LoaderActor } from "../../src/actors/loader/loader-actor.ts";
import * as messages from "../../src/actors/messages.ts";
import { SaverActor } from "../../src/actors/saver/saver-actor.ts";
import type { Actor } from "../../src/actors/step.ts";
import * as layout from "../../src/blocks/layout.ts";
import { HYBRID, plannedWorld, rowsOf } from "./planned-transfers.ts";
import { range, type ActorWorld } from "./store-world.ts";

const kinds = [
  { name: "loader", kind: layout.JOB_KIND_LOAD, start: "load", done: "loadDone" },
  { name: "saver", kind: layout.JOB_KIND_SAVE, start: "save", done: "saveDone" },
] as const;

function create(name: "loader" | "saver", world: ActorWorld): Actor {
  const { tables, workers, rules } = world;
  const options = { tables, workers, rules };
  return name === "loader" ? new LoaderActor(options) : new SaverActor(options);
}

/** Four jobs of two requests, on two ranks. */
function announce(world: ActorWorld, kind: number, start: "load" | "save"): void {
  for (const job of range(0, 4)) {
    const tokens = 16 + 8 * job;
    const states = kind === layout.JOB_KIND_LOAD;
    const hashPage = world.writeJob({
      job,
      kind,
      slot: job % 2,
      blocks: rowsOf(HYBRID, tokens, 1 + 20 * job, states),
      planned: {
        tokens,
        hashes: tokens / 4,
        localTokens: states ? 8 : 0,
        tailTokens: range(0, 3).map(() => tokens),
        boundaryPuts: states ? [] : [[2, 120 + job, tokens]],
      },
    });
    if (states)
      for (const rank of [0, 1])
        for (const group of range(0, 3)) world.fillPool(hashPage, range(0, 2), rank, group);
    for (const worker of [0, 1]) world.inbox.push({ kind: start, job, ticket: 0, worker });
  }
}

describe.each(kinds)("$name", ({ name, kind, start, done }) => {
  test("dies after any number of events", () => {
    let orphaned = 0;
    for (let events = 0; events < 60; events++) {
      const shape = { batchSlots: 3, keysPerBatchMax: 3 };
      const world = plannedWorld(HYBRID, { shape, seed: events + 1, ranks: 2 });
      announce(world, kind, start);
      const first = create(name, world);
      const context = world.context(1);
      world.step(first, context);
      for (let count = 0; count < events && world.clock.nextDueMs() < Infinity; count++) {
        world.clock.nowMs = world.clock.nextDueMs();
        world.clock.runDue();
        world.step(first, context);
      }
      const answers = (from: number): [number, number, number][] =>
        world.sent
          .slice(from)
          .flatMap((sent) =>
            sent.kind === done ? [[sent.job, sent.worker, sent.outcome] as const] : [],
          )
          .map(([job, worker, outcome]) => [job, worker, outcome]);
      const known = answers(0);
      const whole = range(0, 4).filter(
        (job) => known.filter(([answered]) => answered === job).length === 2,
      );
      for (const job of whole) world.tables.jobs[world.tables.job(job) + layout.JOB_LIVE_WORD] = 0;

      const before = world.sent.length;
      const second = create(name, world);
      const next = world.context(2);
      const busy = new Set<number>();
      next.engine.forEachSubmitted((batch) => busy.add(next.engine.job(batch)));
      orphaned += busy.size;
      world.step(second, next);
      for (const [job, worker] of answers(before)) expect(busy.has(2 * job + worker)).toBe(false);
      world.run(second, next);
      // Of jobs that were not reported whole, both ranks are answered (again).
      const expected = range(0, 4)
        .filter((job) => !whole.includes(job))
        .flatMap((job) => [0, 1].map((rank) => [job, rank, messages.OUTCOME_ENGINE_ERROR]));
      expect(answers(before).toSorted((a, b) => a[0] - b[0] || a[1] - b[1])).toEqual(expected);
      for (const sent of world.sent.slice(before))
        if (sent.kind === "loadDone") expect(sent.badChunk).toBe(1);
      expect(second.idle()).toBe(true);
      expect(world.channel.inFlight()).toBe(0);
    }
    expect(orphaned).toBeGreaterThan(30);
  });
});
