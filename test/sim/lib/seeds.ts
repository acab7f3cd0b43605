import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";

import { simulate, type SimulateOptions } from "./simulated-run.ts";

export const FIXED_SEEDS = 1000;

/** Seeds 1 to 1,000: the same in every run of the tests. */
export function fixedSeeds(): number[] {
  return Array.from({ length: FIXED_SEEDS }, (_, index) => index + 1);
}

/** Where the other seeds come from: the commit, so that every commit looks at new runs and can be repeated. */
export function seedText(): string {
  try {
    return execFileSync("git", ["rev-parse", "HEAD"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  } catch {
    return "mooncake-kv outside of git";
  }
}

/** `count` seeds behind the fixed ones, from `text` and the name of who asks. */
export function derivedSeeds(text: string, who: string, count: number): number[] {
  const digest = createHash("sha256").update(`${text} ${who}`).digest();
  const first = FIXED_SEEDS + 1 + (digest.readUInt32LE(0) % 1_000_000_000);
  return Array.from({ length: count }, (_, index) => first + index);
}

export interface SeedsResult {
  readonly runs: number;
  readonly requests: number;
  /** What went wrong, with the command that shows it again. */
  readonly failures: readonly string[];
  /** In how many runs each situation occurred. */
  readonly situations: ReadonlyMap<string, number>;
}

/** Failing seeds to describe; more say nothing new. */
const FAILURES_SHOWN = 5;

export function runSeeds(seeds: readonly number[], options: SimulateOptions = {}): SeedsResult {
  const failures: string[] = [];
  const situations = new Map<string, number>();
  let requests = 0;
  let failed = 0;
  for (const seed of seeds) {
    const result = simulate(seed, options);
    requests += result.requests;
    for (const situation of result.situations.keys())
      situations.set(situation, (situations.get(situation) ?? 0) + 1);
    if (result.errors.length === 0) continue;
    if (++failed <= FAILURES_SHOWN) failures.push(describeFailure(seed, result.errors));
  }
  if (failed > FAILURES_SHOWN) failures.push(`and ${failed - FAILURES_SHOWN} more seeds`);
  return { runs: seeds.length, requests, failures, situations };
}

function describeFailure(seed: number, errors: readonly string[]): string {
  const command = `MOONCAKE_KV_SEED=${seed} npx vitest run test/sim/replay.test.ts`;
  return `seed ${seed}: ${errors.slice(0, 3).join("; ")}\n  see it again: ${command}`;
}
