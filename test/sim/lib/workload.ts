import type { SeededRandom } from "../../../src/actors/hosts/simulated/random.ts";
import type { SimulatedModelShape } from "../../../src/actors/hosts/simulated/model-truth.ts";
import { HASH_ALGORITHMS_SUPPORTED } from "../../../src/config/kv-cache-config.ts";
import type { HashAlgorithmName } from "../../../src/config/kv-cache-config.ts";
import type { ConnectorSettings } from "../../../src/connector/settings.ts";
import { NO_FAULTS, planFaults, type FaultPlan } from "./fault-plan.ts";

/** One request of a simulated run. */
export interface PlannedRequest {
  readonly prompt: readonly number[];
  readonly maxTokens: number;
  readonly arrivalMs: number;
  /** When its client goes away; Infinity: never. */
  readonly abortMs: number;
  readonly noReuse: boolean;
  readonly cacheSalt: string | null;
}

/** Sizes and faults of one run, all drawn from the seed. */
export interface RunPlan {
  readonly seed: number;
  readonly shape: SimulatedModelShape;
  readonly blockSize: number;
  readonly hashBlockSize: number;
  readonly hashAlgorithm: HashAlgorithmName;
  readonly hashLookaheadTokens: number;
  readonly blockCount: number;
  readonly requestSlots: number;
  readonly jobSlots: number;
  readonly sequencesMax: number;
  readonly tokensPerStepMax: number;
  readonly settings: ConnectorSettings;
  readonly poolBytesMax: number;
  /** False: a full pool refuses instead of evicting. */
  readonly poolEvicts: boolean;
  /** Share of the blocks of all requests that others have put into the pool before. */
  readonly poolFilled: number;
  readonly frontEndCapacity: number;
  readonly requests: readonly PlannedRequest[];
  /** When the local prefix cache is dropped. */
  readonly dropsMs: readonly number[];
  /** When everything is stopped; Infinity: after the last request. */
  readonly stopMs: number;
  readonly faults: FaultPlan;
}

/** Draws a run. Every third seed has no fault at all, so that plain scheduling bugs show up plainly. */
export function planRun(seed: number, random: SeededRandom): RunPlan {
  const blockSize = [2, 4, 8][random.below(3)] ?? 4;
  const groups = random.chance(0.2) ? 2 : 1;
  const ranks = random.chance(0.25) ? 2 : 1;
  const spanMs = 20 + random.below(400);
  const requests = planRequests(random, spanMs);
  const longest = Math.max(...requests.map((request) => request.prompt.length + request.maxTokens));
  const needed = groups * (Math.ceil(longest / blockSize) + 1);
  const faulty = seed % 3 !== 0;
  const often = random.chance(0.7);
  return {
    seed,
    shape: { ranks, groups, ranksAreEqual: random.chance(0.3), vocabulary: 97 },
    blockSize,
    hashBlockSize: random.chance(0.25) ? blockSize / 2 : blockSize,
    hashAlgorithm: HASH_ALGORITHMS_SUPPORTED[seed % HASH_ALGORITHMS_SUPPORTED.length] ?? "sha256",
    hashLookaheadTokens: seed % 5 === 0 ? 1 + (seed % 2) : 0,
    // From hardly enough for one request to plenty: preemption and eviction come by themselves.
    blockCount: needed + 1 + random.below(random.chance(0.5) ? needed : 6 * needed),
    requestSlots: 4 + random.below(12),
    jobSlots: 2 + random.below(random.chance(0.4) ? 3 : 24),
    sequencesMax: 1 + random.below(6),
    tokensPerStepMax: [8, 16, 64][random.below(3)] ?? 16,
    settings: planSettings(random),
    poolBytesMax: random.chance(0.3) ? 2000 + random.below(8000) : 1_000_000,
    poolEvicts: random.chance(0.7),
    poolFilled: random.chance(0.6) ? random.next() : 0,
    frontEndCapacity: random.chance(0.7) ? 64 : 256,
    requests,
    dropsMs: Array.from(
      { length: often ? 1 + random.below(8) : 0 },
      () => random.next() * spanMs * 1.5,
    ),
    stopMs: random.chance(0.15) ? random.next() * spanMs * 1.2 : Infinity,
    faults: faulty ? planFaults(random, spanMs) : NO_FAULTS,
  };
}

function planSettings(random: SeededRandom): ConnectorSettings {
  const role = random.chance(0.8) ? "kv_both" : random.chance(0.5) ? "kv_consumer" : "kv_producer";
  const saveDecodeCache = random.chance(0.4);
  return {
    role,
    loadAsync: random.chance(0.75),
    lookupAsync: random.chance(0.75),
    enableLookup: random.chance(0.95),
    canSave: role !== "kv_consumer" || saveDecodeCache,
    saveDecodeCache,
    lookupTimeoutMs: random.chance(0.2) ? 4 + random.below(10) : 60,
    loadTimeoutMs: random.chance(0.2) ? 4 + random.below(10) : 80,
    saveTimeoutMs: random.chance(0.2) ? 5 + random.below(20) : 200,
    minLoadTokens: random.chance(0.1) ? random.below(40) : 0,
    loadFailurePolicy: random.chance(0.12) ? "fail" : "recompute",
    ...(random.chance(0.2) ? { loadRetriesMax: 1 } : {}),
  };
}

function planRequests(random: SeededRandom, spanMs: number): PlannedRequest[] {
  const requestCount = 3 + random.below(14);
  // Now and then prompts whose rows take several pages.
  const prefixTokensMax = random.chance(0.03) ? 400 : 60;
  const prefixes = Array.from({ length: 1 + random.below(3) }, () =>
    tokens(random, 4 + random.below(prefixTokensMax)),
  );
  const salted = random.chance(0.25);
  const requests: PlannedRequest[] = [];
  while (requests.length < requestCount) {
    const prefix = prefixes[random.below(prefixes.length)] ?? [];
    // A prompt is a piece of a shared prefix and a tail of its own; some are exact repetitions.
    const shared = random.chance(0.3) ? prefix : prefix.slice(0, 1 + random.below(prefix.length));
    const tail = random.chance(0.25) ? [] : tokens(random, random.below(12));
    const arrivalMs = random.next() * spanMs;
    const first: PlannedRequest = {
      prompt: [...shared, ...tail],
      maxTokens: 1 + random.below(16),
      arrivalMs,
      abortMs: abortTime(random, arrivalMs),
      noReuse: random.chance(0.06),
      cacheSalt: salted && random.chance(0.6) ? `tenant ${random.below(2)}` : null,
    };
    requests.push(first);
    // Several with one prefix at once: they look up, load, compute and save the same blocks side by side.
    const twins = random.chance(0.15) ? 1 + random.below(3) : 0;
    for (let twin = 0; twin < twins; twin++)
      requests.push({
        ...first,
        prompt: [...first.prompt, ...tokens(random, random.below(3))],
        maxTokens: 1 + random.below(16),
        abortMs: abortTime(random, arrivalMs),
      });
  }
  return requests;
}

function abortTime(random: SeededRandom, arrivalMs: number): number {
  if (!random.chance(0.18)) return Infinity;
  return arrivalMs + random.next() * (random.chance(0.6) ? 15 : 120);
}

function tokens(random: SeededRandom, count: number): number[] {
  return Array.from({ length: count }, () => random.below(90));
}
