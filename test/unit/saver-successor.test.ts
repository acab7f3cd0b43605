/**
 * Goal: a loader or saver that dies at any moment leaves nothing behind: its successor answers each job that was taken, exactly
 * once more at most, and only when the engine touches none of the job's blocks.
 * Method: the actor is thrown away after every possible number of engine events; a successor attaches under the next epoch.
 */
import { describe, expect, test } from "vitest";

import { LoaderActor } from "../../src/actors/loader/loader-actor.ts";
import * as messages from "../../src/actors/messages.ts";
import { SaverActor } from "../../src/actors/saver/saver-actor.ts";
import type { Actor } from "../../src/actors/step.ts";
import * as layout from "../../src/blocks/layout.ts";
import { ActorWorld, range } from "./store-world.ts";

const kinds = [
  { name: "loader", kind: layout.JOB_KIND_LOAD, start: "load", done: "loadDone" },
  { name: "saver", kind: layout.JOB_KIND_SAVE, start: "save", done: "saveDone" },
] as const;

function create(name: "loader" | "saver", world: ActorWorld): Actor {
  const options = { tables: world.tables, workers: world.workers, rules: world.rules };
  return name === "loader" ? new LoaderActor(options) : new SaverActor(options);
}

describe.each(kinds)("$name", ({ name, kind, start, done }) => {
  test("dies after any number of events with several jobs in the middle of their batches", () => {
    let orphaned = 0;
    for (let events = 0; events < 60; events++) {
      const world = new ActorWorld({
        shape: { batchSlots: 3, keysPerBatchMax: 3 },
        seed: events + 1,
      });
      const jobs = range(0, 4);
      for (const job of jobs) {
        const blocks = [range(job * 20, job * 20 + 4 + 3 * job)];
        const hashPage = world.writeJob({ job, kind, slot: job, first: job, blocks });
        if (kind === layout.JOB_KIND_LOAD) world.fillPool(hashPage, range(0, 20));
        world.inbox.push({ kind: start, job, ticket: 0, worker: 0 });
      }
      const first = create(name, world);
      const context = world.context(1);
      world.step(first, context);
      for (let count = 0; count < events && world.clock.nextDueMs() < Infinity; count++) {
        world.clock.nowMs = world.clock.nextDueMs();
        world.clock.runDue();
        world.step(first, context);
      }
      const before = world.sent.filter((message) => message.kind === done).length;
      const answered = new Set(
        world.sent.flatMap((message) => (message.kind === done ? [message.job] : [])),
      );
      // The scheduler side frees what was reported.
      for (const job of answered)
        world.tables.jobs[world.tables.job(job) + layout.JOB_LIVE_WORD] = 0;

      const second = create(name, world);
      const next = world.context(2);
      const busy = new Set<number>();
      next.engine.forEachSubmitted((batch) => busy.add(next.engine.job(batch)));
      orphaned += busy.size;
      world.step(second, next);
      const atOnce = world.sent
        .slice(before)
        .flatMap((message) => (message.kind === done ? [message.job] : []));
      for (const job of atOnce) expect(busy.has(job)).toBe(false);
      world.run(second, next);
      const after = world.sent.filter((message) => message.kind === done).slice(before);
      const left = jobs.filter((job) => !answered.has(job));
      expect(
        after.map((message) => ("job" in message ? message.job : -1)).toSorted((a, b) => a - b),
      ).toEqual(left);
      for (const message of after) {
        expect(message).toMatchObject({ outcome: messages.OUTCOME_ENGINE_ERROR });
        if (message.kind === "loadDone") expect(message.badChunk).toBe(message.job);
        if (message.kind === "saveDone") expect(message.failedBlocks).toBe(4 + 3 * message.job);
      }
      expect(second.idle()).toBe(true);
      expect(world.channel.inFlight()).toBe(0);
    }
    expect(orphaned).toBeGreaterThan(30);
  });

  test("a job that its predecessor never took comes by its message", () => {
    const world = new ActorWorld();
    const hashPage = world.writeJob({ job: 0, kind, blocks: [[1, 2]] });
    if (kind === layout.JOB_KIND_LOAD) world.fillPool(hashPage, [0, 1]);
    const second = create(name, world);
    const context = world.context(2);
    world.step(second, context);
    expect(world.sent).toEqual([]);
    world.inbox.push({ kind: start, job: 0, ticket: 0, worker: 0 });
    world.run(second, context);
    expect(world.sent).toMatchObject([{ kind: done, outcome: messages.OUTCOME_HIT }]);
  });

  test("a report that may have died with its predecessor is repeated", () => {
    const world = new ActorWorld();
    const hashPage = world.writeJob({ job: 0, kind, blocks: [[1, 2]] });
    if (kind === layout.JOB_KIND_LOAD) world.fillPool(hashPage, [0, 1]);
    world.inbox.push({ kind: start, job: 0, ticket: 0, worker: 0 });
    const first = create(name, world);
    world.run(first, world.context(1));
    expect(world.jobState(0)).toBe(layout.JOB_STATE_DONE);
    world.step(create(name, world), world.context(2));
    expect(world.sent.map((message) => message.kind)).toEqual([done, done]);
    expect(world.sent[1]).toMatchObject({ outcome: messages.OUTCOME_ENGINE_ERROR });
  });

  test("gauges in the request table follow the jobs, over a death too", () => {
    const world = new ActorWorld({ shape: { batchSlots: 1, keysPerBatchMax: 2 } });
    const word =
      kind === layout.JOB_KIND_LOAD
        ? layout.REQUEST_LOADS_IN_FLIGHT
        : layout.REQUEST_SAVES_IN_FLIGHT;
    const gauge = (): number => world.tables.requests[world.tables.request(5) + word]!;
    world.writeJob({ job: 0, kind, slot: 5, blocks: [range(0, 9)] });
    world.inbox.push({ kind: start, job: 0, ticket: 0, worker: 0 });
    world.step(create(name, world), world.context(1));
    expect(gauge()).toBe(1);
    const second = create(name, world);
    const context = world.context(2);
    world.step(second, context);
    expect(gauge()).toBe(1);
    world.run(second, context);
    expect(gauge()).toBe(0);
  });
});
