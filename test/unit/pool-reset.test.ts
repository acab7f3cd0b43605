/**
 * Goal: a reset that cannot empty its part of the pool says so, in time; leased keys are waited for, or passed over when forced; and no
 * other deployment's keys are named.
 * Method: pools of plain sets with leases, with and without listing, on a clock that only sleeping moves.
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
import { ConnectorBench } from "./connector-bench.ts";

const OURS = ["p@m@tp_rank:0@a", "p@m@tp_rank:0@b", "p@m@mooncake-kv-identity"];
const OTHERS = ["m@tp_rank:0@a", "p@other@tp_rank:0@a", "p2@m@tp_rank:0@a", "p@m@x@m@tp_rank:0@a"];

class Pool {
  nowMs = 0;
  /** Until when a key is leased. */
  readonly leases = new Map<string, number>();
  lists = true;
  failure: { ok: false; code: number; text: string } | null = null;
  keys = new Set([...OURS, ...OTHERS]);
  readonly tables = new ConnectorBench().tables;

  reset(force: boolean, timeoutMs = 30_000) {
    const quiet = (): void => undefined;
    return resetPool({
      calls: {
        removePrefix: async (prefix, _timeoutMs, forced) =>
          this.failure ?? { ok: true, value: this.#remove(prefix, forced === true) },
        removeAll: async (forced) => ({ ok: true, value: this.#remove("", forced) }),
        keys: async (prefix, limit) =>
          this.lists
            ? { ok: true, value: this.#beginning(prefix).slice(0, limit) }
            : { ok: false, code: EngineCode.ENGINE_ERROR, text: "lists nothing" },
      },
      tables: this.tables,
      cachePrefix: "p",
      model: "m",
      force,
      timeoutMs,
      nowMs: () => this.nowMs,
      sleep: async (milliseconds) => void (this.nowMs += milliseconds),
      ended: () => false,
      log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    });
  }

  #beginning(prefix: string): string[] {
    return [...this.keys].filter((key) => key.startsWith(prefix));
  }
  #remove(prefix: string, force: boolean): number {
    const gone = this.#beginning(prefix).filter(
      (key) => force || (this.leases.get(key) ?? 0) <= this.nowMs,
    );
    for (const key of gone) this.keys.delete(key);
    return gone.length;
  }
}

test("the keys that a reset may remove", () => {
  expect(resetScope({ cachePrefix: "", model: "m", force: true })).toBeNull();
  expect(resetScope({ cachePrefix: "p", model: "m", force: true })).toEqual(["p@"]);
  const own = resetScope({ cachePrefix: "", model: "m", force: false });
  expect(own).toEqual(["m@tp_rank:", "m@store_", "m@mooncake-kv-identity"]);
});

describe.each([true, false])("the engine lists keys: %s", (lists) => {
  test("others' keys stay", async () => {
    const pool = new Pool();
    pool.lists = lists;
    expect(await pool.reset(false)).toEqual({ acknowledged: true, removedKeys: 3 });
    expect([...pool.keys]).toEqual(OTHERS);
  });

  test("leased keys are waited for", async () => {
    const pool = new Pool();
    pool.lists = lists;
    pool.leases.set("p@m@tp_rank:0@b", 10_000);
    expect(await pool.reset(false)).toEqual({ acknowledged: true, removedKeys: 3 });
    expect(pool.nowMs).toBeGreaterThanOrEqual(10_000);
    expect(pool.nowMs).toBeLessThan(11_500);
  });

  test("forced, they go at once, with all that has the prefix", async () => {
    const pool = new Pool();
    pool.lists = lists;
    pool.leases.set("p@m@tp_rank:0@b", 10_000);
    expect(await pool.reset(true)).toEqual({ acknowledged: true, removedKeys: 5 });
    expect([...pool.keys]).toEqual(["m@tp_rank:0@a", "p2@m@tp_rank:0@a"]);
    expect(pool.nowMs).toBeLessThan(1000);
  });
});

test("keys that stay are a NACK when the time is over", async () => {
  const pool = new Pool();
  pool.leases.set("p@m@tp_rank:0@b", Infinity);
  expect(await pool.reset(false, 5000)).toMatchObject({ acknowledged: false, reason: "KEYS_LEFT" });
  expect(pool.nowMs).toBeLessThan(5500);
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
  expect(pool.keys.size).toBe(OURS.length + OTHERS.length);
  tables.jobs[at + JOB_ANSWERED_WORD] = 1;
  expect(await pool.reset(false)).toMatchObject({ acknowledged: true });
});
