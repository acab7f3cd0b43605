/**
 * Goal: a reset that cannot empty its part of the pool says so, in time; leased keys are waited for, forced or not; and no other
 * deployment's keys are named.
 * Method: pools of plain sets with leases, which tell what they kept or do not, on a clock that only sleeping moves.
 */
import { describe, expect, test } from "vitest";
import { resetPool } from "../../src/actors/pool-reset/pool-reset.ts";
import { resetScope } from "../../src/actors/pool-reset/reset-scope.ts";
import {
  JOB_ANSWERED_WORD,
  JOB_KIND,
  JOB_KIND_SAVE,
  JOB_LIVE_WORD,
  JOB_RANKS,
} from "../../src/blocks/layout.ts";
import { EngineCode } from "../../src/store/engine.ts";
import type { Removal, RemovalScope } from "../../src/store/engine-calls.ts";
import { hasCachePrefix } from "../../src/store/key-names.ts";
import { ConnectorBench } from "./connector-bench.ts";

const OURS = ["p@m@tp_rank:0@a", "p@m@tp_rank:0@b", "p@m@mooncake-kv-identity"];
/** Of another model with the same prefix. */
const SIBLINGS = ["p@other@tp_rank:0@a", "p@store_of@store_tp:2@store_pp:1@tp_rank:0@a"];
const OTHERS = [
  "m@tp_rank:0@a",
  "p2@m@tp_rank:0@a",
  "p@m@x@m@tp_rank:0@a",
  // No prefix, and a model whose name is the prefix.
  "p@tp_rank:0@a",
  "p@store_tp:2@store_pp:1@tp_rank:0@a",
  "p@mooncake-kv-identity",
];

class Pool {
  nowMs = 0;
  /** Until when a key is leased. */
  readonly leases = new Map<string, number>();
  tells = true;
  leaseMs = 10_000;
  /** No room for another key. */
  full = false;
  afterSleep = (): unknown => undefined;
  failure: { ok: false; code: number; text: string } | null = null;
  keys = new Set([...OURS, ...SIBLINGS, ...OTHERS]);
  readonly tables = new ConnectorBench().tables;

  reset(force: boolean, timeoutMs = 30_000) {
    const quiet = (): void => undefined;
    return resetPool({
      calls: {
        remove: async (scope) => this.failure ?? { ok: true, value: this.#remove(scope) },
        putValue: async (key) => {
          if (this.full) return { ok: false, code: EngineCode.NO_AVAILABLE_HANDLE, text: "full" };
          this.keys.add(key);
          return { ok: true, value: "stored" };
        },
        getValue: async (key) => {
          this.leases.set(key, this.nowMs + this.leaseMs);
          return { ok: true, value: Uint8Array.of(1) };
        },
        removeKey: async (key) =>
          (this.leases.get(key) ?? 0) > this.nowMs
            ? { ok: false, code: EngineCode.ENGINE_ERROR, text: "leased" }
            : { ok: true, value: this.keys.delete(key) },
      },
      tables: this.tables,
      cachePrefix: "p",
      model: "m",
      force,
      timeoutMs,
      nowMs: () => this.nowMs,
      sleep: async (milliseconds) => {
        this.nowMs += milliseconds;
        this.afterSleep();
      },
      ended: () => false,
      log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    });
  }

  #remove(scope: RemovalScope): Removal {
    const wanted = [...this.keys].filter((key) => isIn(scope, key) && !key.includes("#xxh3"));
    const gone = wanted.filter((key) => (this.leases.get(key) ?? 0) <= this.nowMs);
    for (const key of gone) this.keys.delete(key);
    return { removed: gone.length, kept: this.tells ? wanted.length - gone.length : null };
  }
}

function isIn(scope: RemovalScope, key: string): boolean {
  if (scope.operation === "removeAll") return true;
  return scope.operation === "removePrefix"
    ? key.startsWith(scope.prefix)
    : hasCachePrefix(key, scope.prefix);
}

test("the keys that a reset may remove", () => {
  const starts = (options: Parameters<typeof resetScope>[0]): unknown =>
    resetScope(options).map((scope) => ("prefix" in scope ? scope.prefix : "everything"));
  expect(starts({ cachePrefix: "", model: "m", force: true })).toEqual(["everything"]);
  expect(resetScope({ cachePrefix: "p", model: "m", force: true })).toEqual([
    { operation: "removeCachePrefix", prefix: "p" },
  ]);
  const own = ["m@tp_rank:", "m@store_tp:", "m@store_pp:", "m@mooncake-kv-identity"];
  expect(starts({ cachePrefix: "", model: "m", force: false })).toEqual(own);
  // Where the prefix ends cannot be told from such a name, but this model's own is known.
  const at = ["@tp_rank:", "@store_tp:", "@store_pp:", "@mooncake-kv-identity"];
  expect(starts({ cachePrefix: "p", model: "m@v2", force: true })).toEqual([
    "p",
    ...at.map((next) => `p@m@v2${next}`),
  ]);
});

describe.each([true, false])("the engine tells what it kept: %s", (tells) => {
  test("others' keys stay", async () => {
    const pool = new Pool();
    pool.tells = tells;
    expect(await pool.reset(false)).toEqual({ acknowledged: true, removedKeys: 3 });
    expect([...pool.keys]).toEqual([...SIBLINGS, ...OTHERS]);
  });

  test.each([false, true])("leased keys are waited for, forced or not (%s)", async (force) => {
    const pool = new Pool();
    pool.tells = tells;
    pool.leases.set("p@m@tp_rank:0@b", 10_000);
    const removedKeys = force ? 5 : 3;
    expect(await pool.reset(force)).toEqual({ acknowledged: true, removedKeys });
    expect([...pool.keys]).toEqual(force ? OTHERS : [...SIBLINGS, ...OTHERS]);
    expect(pool.nowMs).toBeGreaterThanOrEqual(10_000);
    expect(pool.nowMs).toBeLessThan(tells ? 11_500 : 13_500);
  });

  test("a time shorter than a lease is too short for a forced reset too", async () => {
    const pool = new Pool();
    pool.tells = tells;
    pool.leases.set("p@m@tp_rank:0@b", 10_000);
    const answer = await pool.reset(true, 3000);
    expect(answer).toMatchObject({ acknowledged: false, reason: "KEYS_LEFT" });
    expect(pool.keys).toContain("p@m@tp_rank:0@b");
    expect(pool.nowMs).toBeLessThan(3500);
  });
});

test.each([500, 10_000, 25_000])("a lease of %i ms, as only the master knows", async (leaseMs) => {
  const pool = new Pool();
  [pool.tells, pool.leaseMs] = [false, leaseMs];
  pool.leases.set("p@m@tp_rank:0@b", leaseMs);
  expect(await pool.reset(true)).toMatchObject({ acknowledged: true });
  expect([...pool.keys]).toEqual(OTHERS);
  expect(pool.nowMs).toBeGreaterThanOrEqual(leaseMs);
  expect(pool.nowMs).toBeLessThan(leaseMs + 3_500);
});

test("a load that was under way leases its keys anew: it is waited for too", async () => {
  const pool = new Pool();
  pool.tells = false;
  pool.leases.set("p@m@tp_rank:0@b", 11_200);
  expect(await pool.reset(true)).toMatchObject({ acknowledged: true });
  expect([...pool.keys]).toEqual(OTHERS);
});

test("a pool that has no room for a probe: a lease is taken for as long as Mooncake's own", async () => {
  const pool = new Pool();
  [pool.tells, pool.full] = [false, true];
  pool.leases.set("p@m@tp_rank:0@b", 10_000);
  expect(await pool.reset(true)).toMatchObject({ acknowledged: true });
  expect([...pool.keys]).toEqual(OTHERS);
});

test("checksums stay: a block that is leased must not lose its own, which nobody has leased", async () => {
  const pool = new Pool();
  pool.tells = false;
  const [block, checksum] = ["p@m@tp_rank:0@b", "p@m@tp_rank:0@b#xxh3=00"];
  pool.keys.add(checksum);
  pool.leases.set(block, 8_000);
  expect(await pool.reset(false, 5_000)).toMatchObject({ reason: "KEYS_LEFT" });
  expect([pool.keys.has(block), pool.keys.has(checksum)]).toEqual([true, true]);
  expect(await pool.reset(false)).toMatchObject({ acknowledged: true });
  expect([pool.keys.has(block), pool.keys.has(checksum)]).toEqual([false, true]);
});

test("keys that stay are a NACK when the time is over", async () => {
  const pool = new Pool();
  pool.leases.set("p@m@tp_rank:0@b", Infinity);
  expect(await pool.reset(false, 5000)).toMatchObject({ acknowledged: false, reason: "KEYS_LEFT" });
  expect(pool.nowMs).toBeLessThan(5500);
});

test("the time of the reset is over amid a round: the engine is not to blame", async () => {
  const pool = new Pool();
  pool.leases.set("p@m@tp_rank:0@b", Infinity);
  const late = { ok: false, code: EngineCode.TIMED_OUT, text: "late" } as const;
  pool.afterSleep = () => (pool.failure = late);
  expect(await pool.reset(true)).toMatchObject({ reason: "KEYS_LEFT" });
  expect(await pool.reset(true)).toMatchObject({ reason: "ENGINE" });
});

test("an engine that fails is a NACK with what it said", async () => {
  const pool = new Pool();
  pool.failure = { ok: false, code: EngineCode.ENGINE_DOWN, text: "is away" };
  expect(await pool.reset(false)).toMatchObject({ acknowledged: false, reason: "ENGINE" });
});

test("saves that do not end are a NACK, and nothing is removed; one that is answered is no save in flight", async () => {
  const pool = new Pool();
  const { tables } = pool;
  const at = tables.job(3);
  tables.jobs[at + JOB_KIND] = JOB_KIND_SAVE;
  tables.jobs[at + JOB_RANKS] = 1;
  tables.jobs[at + JOB_LIVE_WORD] = 1;
  const answer = await pool.reset(false, 1000);
  expect(answer).toMatchObject({ acknowledged: false, reason: "SAVES_IN_FLIGHT" });
  expect(pool.keys.size).toBe(OURS.length + SIBLINGS.length + OTHERS.length);
  tables.jobs[at + JOB_ANSWERED_WORD] = 1;
  expect(await pool.reset(false)).toMatchObject({ acknowledged: true });
});
