/**
 * Goal: a runtime's resets are one at a time and bounded, pause the scheduler side before they look for saves, publish the identity and
 * tell KV events only when the pool is empty, and end at once when the runtime stops.
 * Method: the real reset over a stand-in for the addon that answers, fails or hangs; a save in flight is a record in the tables.
 */
import { expect, test } from "vitest";
import { PoolResets } from "../../src/actors/runtime/reset.ts";
import {
  JOB_ANSWERED_WORD,
  JOB_KIND,
  JOB_KIND_LOAD,
  JOB_KIND_SAVE,
  JOB_LIVE_WORD,
  JOB_RANKS,
} from "../../src/blocks/layout.ts";
import type { EngineCallReply } from "../../src/native/binding.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { ConnectorBench } from "./connector-bench.ts";

const DONE: EngineCallReply = {
  status: 0,
  count: 3,
  kept: 0,
  value: new Uint8Array(0),
  keys: [],
  text: "",
};

class World {
  readonly events: string[] = [];
  reply: EngineCallReply | "hangs" = DONE;
  readonly tables = new ConnectorBench().tables;
  readonly resets: PoolResets;

  constructor(saveTimeoutMs = 30_000) {
    const quiet = (): void => undefined;
    const note = (event: string) => () => void this.events.push(event);
    this.resets = new PoolResets({
      native: {
        engineCall: (_engineId, { operation }, done) => {
          this.events.push(operation);
          if (this.reply !== "hangs") done(this.reply);
        },
      },
      engineId: 1,
      ends: { tables: this.tables, nowMs: () => performance.now() },
      membership: {
        pause: note("pause"),
        resume: note("resume"),
        status: () => ({ membership: "open", differences: [], keyDifferences: [] }),
        checkAnew: async () => void this.events.push("identity"),
      },
      kvEvents: { cleared: note("cleared") },
      connector: { cachePrefix: "", saveTimeoutMs },
      kvCache: { modelName: "m" },
      log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    });
  }

  transfer(kind: number): void {
    const { jobs } = this.tables;
    const at = this.tables.job(0);
    jobs[at + JOB_KIND] = kind;
    jobs[at + JOB_RANKS] = 1;
    jobs[at + JOB_ANSWERED_WORD] = 0;
    jobs[at + JOB_LIVE_WORD] = 1;
  }
  answerTransfer(): void {
    this.tables.jobs[this.tables.job(0) + JOB_ANSWERED_WORD] = 1;
  }
}

test.each([JOB_KIND_SAVE, JOB_KIND_LOAD])(
  "paused, then transfers end (kind %i), then the keys go, then the identity is back",
  async (kind) => {
    const world = new World();
    world.transfer(kind);
    const reset = world.resets.reset({ force: true });
    expect(world.events).toEqual(["pause"]);
    expect(await world.resets.reset({})).toMatchObject({ reason: "BUSY" });
    world.answerTransfer();
    expect(await reset).toEqual({ acknowledged: true, removedKeys: 3 });
    expect(world.events).toEqual(["pause", "removeAll", "cleared", "identity", "resume"]);
    expect(await world.resets.reset({ force: true })).toMatchObject({ acknowledged: true });
  },
);

test.each([
  ["SAVES_IN_FLIGHT", JOB_KIND_SAVE],
  ["LOADS_IN_FLIGHT", JOB_KIND_LOAD],
])("%s at the deadline: nothing is removed, told or published", async (reason, kind) => {
  const world = new World(20);
  world.transfer(kind);
  expect(await world.resets.reset({ force: true })).toMatchObject({ acknowledged: false, reason });
  expect(world.events).toEqual(["pause", "resume"]);
});

test("an engine that fails or hangs is a failed reset, and the pause is over", async () => {
  const world = new World(20);
  world.reply = { ...DONE, status: EngineCode.ENGINE_DOWN, text: "is away" };
  expect(await world.resets.reset({ force: true })).toMatchObject({ reason: "ENGINE" });
  world.reply = "hangs";
  expect(await world.resets.reset({ force: true })).toMatchObject({ reason: "ENGINE" });
  expect(world.events).toEqual(["pause", "removeAll", "resume", "pause", "removeAll", "resume"]);
});

test("a peer's reset is the forced one, and is not begun when its time is over", async () => {
  const world = new World();
  expect(await world.resets.resetForPeer(performance.now() - 1)).toBe(false);
  expect(world.events).toEqual([]);
  expect(await world.resets.resetForPeer(performance.now() + 10_000)).toBe(true);
  expect(world.events).toContain("removeAll");
  world.reply = "hangs";
  expect(await world.resets.resetForPeer(performance.now() + 20)).toBe(false);
});

test.each(["save", "engine"])(
  "the runtime stops while the %s hangs: the reset ends at once",
  async (what) => {
    const world = new World(3_600_000);
    if (what === "save") world.transfer(JOB_KIND_SAVE);
    else world.reply = "hangs";
    const reset = world.resets.reset({ force: true });
    await new Promise((resolve) => setTimeout(resolve, 20));
    world.resets.end();
    expect(await reset).toMatchObject({ acknowledged: false, reason: "ENGINE" });
    expect(world.events.at(-1)).toBe("resume");
    const calls = world.events.length;
    // An engine that is closed is not called.
    expect(await world.resets.reset({ force: true })).toMatchObject({ reason: "ENGINE" });
    expect(world.events.slice(calls)).toEqual(["pause", "resume"]);
  },
);
