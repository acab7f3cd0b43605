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
  /** A value that is there and cannot be read. */
  unreadable: { ok: false; code: number; text: string } | null = null;
  /** What somebody puts whenever the value is removed. */
  rewritten: Uint8Array | null = null;
  removals = 0;
  /** Calls throw what they should not. */
  broken = false;
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
          if (this.broken) throw new RangeError("Maximum call stack size exceeded");
          const read = this.unreadable ?? ({ ok: true, value: this.value } as const);
          const answer = this.down ? DOWN : read;
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
        removeKey: async (key, _timeoutMs, force) => {
          expect([key, force]).toEqual([KEY, true]);
          this.removals++;
          const removed = this.value !== null;
          this.value = this.rewritten;
          this.unreadable = null;
          return { ok: true, value: removed };
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

test("a value of another format keeps the pool unknown, with the reason; nobody removes it", async () => {
  const world = new World();
  world.value = Buffer.from('{"format":9,"bytes":{"dtype":"bfloat16"}}');
  await world.open();
  expect(world.published).toEqual([]);
  expect(world.check.status()).toMatchObject({ membership: "unknown", problem: "its format is 9" });
  expect(world.told).toEqual([expect.stringContaining("format is 9")]);
  while (world.nowMs < 10 * IDENTITY_PERIOD_MS) await world.next();
  expect(world.removals).toBe(0);
  world.value = null;
  await world.next();
  expect(world.check.status()).toEqual({ membership: "open", differences: [], keyDifferences: [] });
});

const DEEP = "[".repeat(3000) + "]".repeat(3000);
const GARBAGE: readonly [string, string][] = [
  ["nested lists", DEEP],
  ["nested lists in a field", `{"format":1,"keys":{"cachePrefix":${DEEP}},"bytes":{}}`],
  ["nested lists as the format", `{"format":${DEEP}}`],
  ["nested objects", '{"a":'.repeat(3000) + "1" + "}".repeat(3000)],
  ["a deep group", `{"format":1,"keys":{},"bytes":{"groups":[${DEEP}]}}`],
  ["no JSON", "\0\0\0"],
  ["too much", " ".repeat(70_000)],
];

test.each(GARBAGE)(
  "%s under the key: unknown with a reason, and replaced when it stays",
  async (_what, text) => {
    const world = new World();
    world.value = Buffer.from(text);
    await world.open();
    expect(world.published).toEqual([]);
    const { membership, problem = "" } = world.check.status();
    expect(membership).toBe("unknown");
    expect(problem).not.toBe("");
    expect(world.told).toEqual([expect.stringContaining(problem)]);
    while (world.removals === 0) await world.next();
    // Members that were open look once a minute: they come first.
    expect(world.nowMs).toBeGreaterThan(IDENTITY_PERIOD_MS);
    expect(world.nowMs).toBeLessThan(4 * IDENTITY_PERIOD_MS);
    expect(world.check.status().membership).toBe("open");
    expect(Buffer.compare(world.value, encodeIdentity(identityOf("float16")))).toBe(0);
  },
);

test.each(GARBAGE)(
  "%s over an identity: a member that was open puts it back",
  async (_what, text) => {
    const world = new World();
    await world.open();
    world.value = Buffer.from(text);
    await world.next();
    expect([world.removals, world.published]).toEqual([1, [MEMBERSHIP_OPEN]]);
    expect(Buffer.compare(world.value, encodeIdentity(identityOf("float16")))).toBe(0);
    // Whoever writes it each time is not raced with: one removal a look.
    world.value = world.rewritten = Buffer.from(text);
    await world.next();
    expect(world.removals).toBe(2);
    expect(world.check.status().membership).toBe("unknown");
  },
);

test("a value of 20 MB is not waited for for ever", async () => {
  const world = new World();
  const text = "the value has 20971520 bytes";
  world.unreadable = { ok: false, code: EngineCode.VALUE_TOO_LARGE, text };
  await world.open();
  expect(world.check.status()).toMatchObject({ membership: "unknown", problem: text });
  while (world.removals === 0) await world.next();
  expect(world.check.status().membership).toBe("open");
});

test("a value whose bytes never come is replaced too, but not while its owner may come back", async () => {
  const world = new World();
  await world.open();
  world.unreadable = { ok: false, code: EngineCode.ENGINE_ERROR, text: "it could not be read" };
  while (world.removals === 0) await world.next();
  expect(world.nowMs).toBeGreaterThanOrEqual(
    IDENTITY_PERIOD_MS + IDENTITY_INTERVALS.replaceAfterMs,
  );
  expect(world.published).toEqual([MEMBERSHIP_OPEN]);
});

test("a look that throws is told, and the next one is made", async () => {
  const world = new World();
  world.broken = true;
  await world.open();
  expect(world.check.status()).toMatchObject({ membership: "unknown" });
  expect(world.told).toEqual([expect.stringContaining("failed")]);
  world.broken = false;
  await world.next();
  expect(world.check.status().membership).toBe("open");
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
