import type { SeededRandom } from "../../../src/actors/hosts/simulated/random.ts";

/** One request of a simulated run. */
export interface PlannedRequest {
  readonly prompt: readonly number[];
  readonly maxTokens: number;
  readonly arrivalMs: number;
  /** When its client goes away; Infinity: never. */
  readonly abortMs: number;
  readonly noReuse: boolean;
}

/** Sizes and faults of one run, all drawn from the seed. */
export interface RunPlan {
  readonly seed: number;
  readonly blockSize: number;
  readonly blockCount: number;
  readonly requestSlots: number;
  readonly jobSlots: number;
  readonly sequencesMax: number;
  readonly tokensPerStepMax: number;
  readonly vocabulary: number;
  readonly loadAsync: boolean;
  readonly lookupAsync: boolean;
  readonly saveDecodeCache: boolean;
  readonly poolBytesMax: number;
  readonly requests: readonly PlannedRequest[];
  readonly faults: FaultPlan;
}

export interface FaultPlan {
  /** Probability that a key of a get or put fails, that a batch fails, that a batch is slow. */
  readonly keyFailure: number;
  readonly batchFailure: number;
  readonly slowBatch: number;
  /** Probability that a key vanishes between exists and get. */
  readonly eviction: number;
  /** Times at which the engine goes down and comes back. */
  readonly outages: readonly (readonly [downMs: number, upMs: number])[];
  /** Deaths: when, and which actor (ACTOR_ number), after how many context calls of its next step (0: between steps). */
  readonly deaths: readonly {
    readonly atMs: number;
    readonly actor: number;
    readonly calls: number;
  }[];
  readonly modelFailure: number;
}

const NO_FAULTS: FaultPlan = {
  keyFailure: 0,
  batchFailure: 0,
  slowBatch: 0,
  eviction: 0,
  outages: [],
  deaths: [],
  modelFailure: 0,
};

/** Draws a run. Every third seed has no fault at all, so that plain scheduling bugs show up plainly. */
export function planRun(seed: number, random: SeededRandom): RunPlan {
  const blockSize = [2, 4, 8][random.below(3)] ?? 4;
  const requestCount = 3 + random.below(14);
  const spanMs = 20 + random.below(400);
  const prefixes = Array.from({ length: 1 + random.below(3) }, () =>
    tokens(random, 4 + random.below(60)),
  );
  const requests = Array.from({ length: requestCount }, (): PlannedRequest => {
    const prefix = prefixes[random.below(prefixes.length)] ?? [];
    // A prompt is a piece of a shared prefix and a tail of its own; some are exact repetitions.
    const shared = random.chance(0.3) ? prefix : prefix.slice(0, 1 + random.below(prefix.length));
    const tail = random.chance(0.25) ? [] : tokens(random, random.below(12));
    const arrivalMs = random.next() * spanMs;
    return {
      prompt: [...shared, ...tail],
      maxTokens: 1 + random.below(16),
      arrivalMs,
      abortMs: random.chance(0.15) ? arrivalMs + random.next() * 120 : Infinity,
      noReuse: random.chance(0.06),
    };
  });
  const longest = Math.max(...requests.map((request) => request.prompt.length + request.maxTokens));
  const needed = Math.ceil(longest / blockSize) + 1;
  return {
    seed,
    blockSize,
    // From hardly enough for one request to plenty: preemption and eviction come by themselves.
    blockCount: needed + 1 + random.below(random.chance(0.5) ? needed : 6 * needed),
    requestSlots: 4 + random.below(12),
    jobSlots: 2 + random.below(24),
    sequencesMax: 1 + random.below(6),
    tokensPerStepMax: [8, 16, 64][random.below(3)] ?? 16,
    vocabulary: 97,
    loadAsync: random.chance(0.75),
    lookupAsync: random.chance(0.75),
    saveDecodeCache: random.chance(0.3),
    poolBytesMax: random.chance(0.3) ? 2000 + random.below(8000) : 1_000_000,
    requests,
    faults: seed % 3 === 0 ? NO_FAULTS : planFaults(random, spanMs),
  };
}

function planFaults(random: SeededRandom, spanMs: number): FaultPlan {
  const sometimes = (probability: number, most: number): number =>
    random.chance(probability) ? random.next() * most : 0;
  return {
    keyFailure: sometimes(0.5, 0.3),
    batchFailure: sometimes(0.4, 0.3),
    slowBatch: sometimes(0.4, 0.3),
    eviction: sometimes(0.4, 0.3),
    outages: random.chance(0.25) ? [outage(random, spanMs)] : [],
    deaths: random.chance(0.6)
      ? Array.from({ length: 1 + random.below(4) }, () => ({
          atMs: random.next() * spanMs * 1.5,
          actor: random.below(5),
          calls: random.below(6),
        }))
      : [],
    modelFailure: sometimes(0.3, 0.2),
  };
}

function outage(random: SeededRandom, spanMs: number): readonly [number, number] {
  const downMs = random.next() * spanMs;
  return [downMs, downMs + random.next() * spanMs];
}

function tokens(random: SeededRandom, count: number): number[] {
  return Array.from({ length: count }, () => random.below(90));
}
