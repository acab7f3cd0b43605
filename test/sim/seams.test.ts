// Goal: the simulator sees faults. A pool that silently damages a value, serves one key's value for another, or answers a get
// with success and old bytes must show as wrong text or as wrong bytes in the pool; without the fault the same seeds pass.
// Method: the runs of seeds that load from the pool, with the pool replaced by one that lies.
import { describe, expect, test } from "vitest";

import { ModelPool } from "../../src/store/model-pool.ts";
import { runSeeds } from "./lib/seeds.ts";

const SEEDS = Array.from({ length: 60 }, (_, index) => 300 + index);

/** A pool like `real` in which `get` answers something else. `peek` and `keys` still say what is really stored. */
class LyingPool extends ModelPool {
  readonly #lie: (key: string, value: Uint8Array) => Uint8Array;
  /** Answers `has` without the lie. */
  #asksOnly = false;

  constructor(lie: (key: string, value: Uint8Array) => Uint8Array) {
    super({ bytesMax: 10_000_000, random: () => 0 });
    this.#lie = lie;
  }
  override has(key: string): boolean {
    this.#asksOnly = true;
    const there = super.has(key);
    this.#asksOnly = false;
    return there;
  }
  override put(key: string, value: Uint8Array): number {
    this.#asksOnly = true;
    const bytes = super.put(key, value);
    this.#asksOnly = false;
    return bytes;
  }
  override get(key: string): Uint8Array | undefined {
    const value = super.get(key);
    return value === undefined || this.#asksOnly ? value : this.#lie(key, value);
  }
}

function failuresWith(lie: (key: string, value: Uint8Array) => Uint8Array): string {
  return runSeeds(SEEDS, { sabotage: { pool: () => new LyingPool(lie) } }).failures.join("\n");
}

describe("a pool that lies", () => {
  test("telling the truth is found faultless (control)", () => {
    expect(failuresWith((_key, value) => value)).toBe("");
  });

  test("one flipped bit of a value", () => {
    const flip = (_key: string, value: Uint8Array): Uint8Array => {
      const damaged = value.slice();
      damaged[value.length - 1] = (damaged[value.length - 1] ?? 0) ^ 1;
      return damaged;
    };
    expect(failuresWith(flip)).toContain("wrong text");
  });

  test("another key's value", () => {
    let before: Uint8Array | undefined;
    const swap = (_key: string, value: Uint8Array): Uint8Array => {
      const other = before?.length === value.length ? before : value;
      before = value;
      return other;
    };
    expect(failuresWith(swap)).toContain("wrong text");
  });

  test("success without bytes", () => {
    expect(failuresWith((_key, value) => new Uint8Array(value.length))).toContain("wrong text");
  });

  test("a put that stores something else", () => {
    class DamagingPool extends ModelPool {
      override put(key: string, value: Uint8Array): number {
        return super.put(
          key,
          value.map((byte, index) => (index === 0 ? byte ^ 128 : byte)),
        );
      }
    }
    const pool = (): ModelPool => new DamagingPool({ bytesMax: 10_000_000, random: () => 0 });
    expect(runSeeds(SEEDS, { sabotage: { pool } }).failures.join("\n")).toContain("wrong bytes");
  });
});
