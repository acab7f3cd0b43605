/**
 * Goal: the check is made when the engine opens, again each minute and sooner after a failure; what is not known counts as closed.
 * Method: a pool of one key whose calls fail on demand, a clock and timers that the test runs by hand.
 */
import { expect, test } from "vitest";
import { IdentityCheck } from "../../src/actors/runtime/identity-check.ts";
import { IDENTITY_INTERVALS } from "../../src/actors/runtime/identity-intervals.ts";
import { normalizeKvCacheConfig } from "../../src/config/kv-cache-normalize.ts";
import type { KvDtype } from "../../src/config/kv-cache-config.ts";
import { poolIdentity } from "../../src/connector/identity/identity.ts";
import { encodeIdentity } from "../../src/connector/identity/identity-value.ts";
import { EngineCode } from "../../src/store/engine.ts";
import {
  MEMBERSHIP_CLOSED,
  MEMBERSHIP_OPEN,
  MEMBERSHIP_UNKNOWN,
} from "../../src/connector/membership.ts";

const { periodMs: IDENTITY_PERIOD_MS } = IDENTITY_INTERVALS;
const KEY = "model@mooncake-kv-identity";
const FULL = { ok: false, code: EngineCode.NO_AVAILABLE_HANDLE, text: "no room" } as const;
const DOWN = { ok: false, code: -11, text: "is away" } as const;

function identityOf(dtype: KvDtype) {
  const kvCache = normalizeKvCacheConfig({
    modelName: "model",
    dtype,
    blockSize: 16,
    blockCount: 8,
    groups: [{ kind: "full", layers: 4 }],
    heads: { kvHeads: 8, headSize: 64 },
  });
  return poolIdentity({ kvCache, cachePrefix: "", noneHash: new Uint8Array(32) });
}

class World {
  /** Moved by `next` only. */
  nowMs = 0;
  /** How long a call of a pool that is away takes. */
  callMs = 0;
  value: Uint8Array | null = null;
  down = false;
  refusesPuts = false;
  /** As the engine counts them: it is open with this number next. */
  reopenings = 0;
  /** Somebody writes the value at the moment: it is there for a put, and not for a get. */
  unready = false;
  /** Put by somebody else between our read and our put. */
  overtaken: Uint8Array | null = null;
  /** What is read now is told when this resolves. */
  late: Promise<void> = Promise.resolve();
  readonly timers: { delayMs: number; action: () => void }[] = [];
  readonly published: number[] = [];
  readonly told: string[] = [];
  readonly events: string[] = [];
  readonly check: IdentityCheck;

  constructor() {
    const tell = (_fields: object, text: string): void => void this.told.push(text);
    this.check = new IdentityCheck({
      calls: {
        getValue: async () => {
          const answer = this.down ? DOWN : ({ ok: true, value: this.value } as const);
          if (this.down) this.nowMs += this.callMs;
          await this.late;
          return answer;
        },
        putValue: async (key, value) => {
          expect(key).toBe(KEY);
          if (this.down) return DOWN;
          if (this.refusesPuts) return FULL;
          if (this.unready) return { ok: true, value: "present" };
          this.value ??= this.overtaken;
          const stored = this.value === null;
          this.value ??= value.slice();
          return { ok: true, value: stored ? "stored" : "present" };
        },
      },
      key: KEY,
      identity: identityOf("float16"),
      timeoutMs: 100,
      nowMs: () => this.nowMs,
      intervals: IDENTITY_INTERVALS,
      after: (delayMs, action) => {
        const timer = { delayMs, action };
        this.timers.push(timer);
        return () => void this.timers.splice(this.timers.indexOf(timer) >>> 0, 1);
      },
      publish: (membership) => void this.published.push(membership),
      trace: { record: (event) => void this.events.push(event) },
      log: { debug: () => undefined, info: tell, warn: tell, error: tell },
    });
  }

  /** The engine comes or goes. */
  turn(state: "open" | "down"): void {
    if (state === "down") this.reopenings++;
    this.check.engineChanged({ state, reopenings: this.reopenings });
  }

  async open(): Promise<void> {
    this.turn("open");
    await this.check.check();
  }

  /** The delay of the next check, which is then made. */
  async next(): Promise<number> {
    const timer = this.timers.shift();
    if (timer === undefined) throw new Error("no check is due");
    this.nowMs += timer.delayMs;
    timer.action();
    await this.check.check();
    return timer.delayMs;
  }
}

const THEIRS = encodeIdentity(identityOf("bfloat16"));

test("published where nothing is; looked at each minute", async () => {
  const world = new World();
  await world.open();
  expect(world.value).toEqual(encodeIdentity(identityOf("float16")));
  expect(world.published).toEqual([MEMBERSHIP_OPEN]);
  expect(world.timers.map(({ delayMs }) => delayMs)).toEqual([IDENTITY_PERIOD_MS]);
  expect(await world.next()).toBe(IDENTITY_PERIOD_MS);
  expect(world.published).toEqual([MEMBERSHIP_OPEN]);
  expect(world.told).toEqual([]);
});

test("closed by other bytes, told once; open again when they go", async () => {
  const world = new World();
  world.value = THEIRS;
  await world.open();
  await world.next();
  expect(world.published).toEqual([MEMBERSHIP_CLOSED]);
  expect(world.told).toHaveLength(1);
  expect(world.told[0]).toMatch(/dtype is "float16" here and "bfloat16" there.*cache_prefix/);
  world.value = null;
  await world.next();
  expect(world.published).toEqual([MEMBERSHIP_CLOSED, MEMBERSHIP_OPEN]);
  expect(world.events).toEqual(["poolClosed", "poolOpened"]);
  // A pool that was emptied may get another member first.
  world.value = THEIRS;
  await world.next();
  expect(world.published.at(-1)).toBe(MEMBERSHIP_CLOSED);
  expect(world.told.filter((text) => text.includes("cache_prefix"))).toHaveLength(2);
});

test("of two that put at the same time, the pool's choice counts", async () => {
  const world = new World();
  world.overtaken = THEIRS;
  await world.open();
  expect(world.published).toEqual([MEMBERSHIP_CLOSED]);
});

test("a value that somebody is writing is waited for", async () => {
  const world = new World();
  world.unready = true;
  await world.open();
  expect(world.published).toEqual([]);
  world.value = THEIRS;
  expect(await world.next()).toBe(500);
  expect(world.published).toEqual([MEMBERSHIP_CLOSED]);
});

test("an engine that is lost makes it unknown until it is back and has answered", async () => {
  const world = new World();
  await world.open();
  world.turn("down");
  expect(world.published).toEqual([MEMBERSHIP_OPEN, MEMBERSHIP_UNKNOWN]);
  // Another pool came back.
  world.value = THEIRS;
  await world.open();
  expect(world.published.at(-1)).toBe(MEMBERSHIP_CLOSED);
});

test("an engine that was lost and is back between two looks is looked at anew; one that is told of twice is not", async () => {
  const world = new World();
  await world.open();
  world.turn("open");
  expect(world.published).toEqual([MEMBERSHIP_OPEN]);
  world.value = THEIRS;
  world.reopenings++;
  world.turn("open");
  expect(world.published).toEqual([MEMBERSHIP_OPEN, MEMBERSHIP_UNKNOWN]);
  await world.check.settle(1000);
  expect(world.published.at(-1)).toBe(MEMBERSHIP_CLOSED);
});

test("an answer that comes after the engine was lost does not count", async () => {
  const world = new World();
  world.turn("open");
  const checking = world.check.check();
  world.turn("down");
  await checking;
  expect(world.published).toEqual([]);
  expect(world.check.status().membership).toBe("unknown");
});

test("an answer of the pool that was lost does not count for the one that came back", async () => {
  const world = new World();
  let tell = (): void => undefined;
  world.late = new Promise((resolve) => (tell = resolve));
  world.value = encodeIdentity(identityOf("float16"));
  world.turn("open");
  world.turn("down");
  world.late = Promise.resolve();
  world.value = THEIRS;
  world.turn("open");
  tell();
  await world.check.checkAnew();
  expect(world.published).toEqual([MEMBERSHIP_CLOSED]);
  expect(world.timers.map(({ delayMs }) => delayMs)).toEqual([IDENTITY_PERIOD_MS]);
});

test("without an answer it stays unknown, is told once, and is asked again with back-off", async () => {
  const world = new World();
  world.down = true;
  await world.open();
  const delays = [await world.next(), await world.next(), await world.next()];
  expect(delays).toEqual([500, 1000, 2000]);
  expect(world.published).toEqual([]);
  expect(world.told).toHaveLength(1);
  world.down = false;
  await world.next();
  expect(world.published).toEqual([MEMBERSHIP_OPEN]);
});

test.each([0, 5000])(
  "a pool without an answer is asked every two seconds at most for half a minute, calls of %i ms included, then slower",
  async (callMs) => {
    const world = new World();
    world.down = true;
    world.callMs = callMs;
    await world.open();
    const first = world.nowMs;
    const soon: number[] = [];
    while (world.nowMs - first < 30_000) soon.push(await world.next());
    expect(soon.slice(0, 3)).toEqual([500, 1000, 2000]);
    expect(new Set(soon.slice(2))).toEqual(new Set([2000]));
    const slower: number[] = [];
    for (let count = 0; count < 6; count++) slower.push(await world.next());
    expect(slower).toEqual([4000, 8000, 16_000, 32_000, 60_000, 60_000]);
    // It opens anew: soon again.
    world.turn("down");
    await world.open();
    expect(await world.next()).toBe(500);
    // And once it has answered, too.
    world.down = false;
    await world.next();
    world.down = true;
    expect(await world.next()).toBe(IDENTITY_PERIOD_MS);
    expect([await world.next(), await world.next()]).toEqual([500, 1000]);
  },
);

test("a pool that lost its identity's owner is known again two seconds after its master has given that up", async () => {
  const world = new World();
  world.down = true;
  world.callMs = 5;
  await world.open();
  // Until then every read fails; then the key is gone.
  while (world.timers[0] !== undefined && world.nowMs + world.timers[0].delayMs < 10_000)
    await world.next();
  world.down = false;
  await world.next();
  expect(world.published).toEqual([MEMBERSHIP_OPEN]);
  expect(world.nowMs).toBeLessThanOrEqual(12_000);
});

test("a failed look leaves what is known as it is", async () => {
  const world = new World();
  await world.open();
  world.down = true;
  await world.next();
  expect(world.published).toEqual([MEMBERSHIP_OPEN]);
  expect(world.timers.map(({ delayMs }) => delayMs)).toEqual([500]);
});

test("a pool that takes no identity is used, with a warning", async () => {
  const world = new World();
  world.refusesPuts = true;
  await world.open();
  expect(await world.next()).toBe(500);
  expect(world.published).toEqual([MEMBERSHIP_OPEN]);
  expect(world.told).toHaveLength(1);
  // It is put as soon as there is room.
  world.refusesPuts = false;
  expect(await world.next()).toBe(1000);
  expect(world.value).not.toBeNull();
  expect(world.timers.map(({ delayMs }) => delayMs)).toEqual([IDENTITY_PERIOD_MS]);
});

test("a value of a newer format is not compared, with a warning", async () => {
  const world = new World();
  world.value = Buffer.from('{"format":9,"bytes":{"dtype":"bfloat16"}}');
  await world.open();
  expect(world.published).toEqual([MEMBERSHIP_OPEN]);
  expect(world.told).toEqual([expect.stringContaining("format is 9")]);
});

test("settle waits for the first answer, and not for an engine that is away", async () => {
  const world = new World();
  await world.check.settle(1000);
  world.turn("open");
  const settled = world.check.settle(1000);
  await settled;
  expect(world.check.status().membership).toBe("open");
  // Of its two timers, the limit of the wait is gone.
  expect(world.timers.map(({ delayMs }) => delayMs)).toEqual([IDENTITY_PERIOD_MS]);
});

test("closed: no check follows", async () => {
  const world = new World();
  await world.open();
  world.check.close();
  expect(world.timers).toEqual([]);
  await world.check.check();
  expect(world.timers).toEqual([]);

  // Amid a check: an engine that is closed must not be called.
  const amid = new World();
  amid.turn("open");
  const checking = amid.check.check();
  amid.check.close();
  await checking;
  expect(amid.value).toBeNull();
});
