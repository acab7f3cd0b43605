import type { NativeBinding } from "../../src/native/binding.ts";
import { median, percentile, type Report } from "./report.ts";
import { type Asked, SchedulerWorld } from "./scheduler-world.ts";

const RUNNING = 64;
const PARKED = 1000;
const LOOKUP_MS = 100;
const PARKED_PROMPT_TOKENS = 1000;
const RUNNING_PROMPT_TOKENS = 128;
const BLOCK_SIZE = 16;
/** Measured steps of one phase: fewer than the lookups' time has at one millisecond a step. */
const PHASE_STEPS = 80;
const PAIRS = 40;
const WARM_UP_PAIRS = 4;
/** Running requests are started anew after so many pairs: their rows stay as long as those of usual requests. */
const PAIRS_PER_REQUEST = 11;
const STEPS_PER_PAIR_MAX = 400;
/** Steps between a collection and the first measured one: caches are warm again. */
const SETTLING_STEPS = 5;
const STEADY_STEPS = 1000;

function openWorld(native: NativeBinding, stepMs: number, steps: number): SchedulerWorld {
  const tokensPerRequestMax = Math.max(2 * PARKED_PROMPT_TOKENS, RUNNING_PROMPT_TOKENS + steps);
  const requestSlots = RUNNING + 2 * PARKED;
  return new SchedulerWorld(
    native,
    {
      requestSlots,
      jobSlots: 4 * requestSlots,
      tokensPerRequestMax,
      tokensMax: RUNNING * tokensPerRequestMax + 2 * PARKED * (PARKED_PROMPT_TOKENS + BLOCK_SIZE),
      hashBlockSize: BLOCK_SIZE,
      hashLookaheadTokens: 0,
      extraEncoding: "pickle",
      blockSize: BLOCK_SIZE,
      groups: 1,
      blockCount: 1 + RUNNING * Math.ceil(tokensPerRequestMax / BLOCK_SIZE) + PARKED,
      stepSequencesMax: RUNNING,
    },
    { lookupMs: LOOKUP_MS, stepMs },
  );
}

let drawn = 0;
/** A prompt that shares no block with any other. */
export function uniquePrompt(tokens: number): Int32Array {
  drawn++;
  return Int32Array.from({ length: tokens }, (_, at) => (at * 7919 + drawn * 104_729) % 32_000);
}

/** Starts 64 requests and steps until every one of them generates. */
function startRunning(world: SchedulerWorld): Asked[] {
  const { tokensPerRequestMax } = world.shared.tables.dimensions;
  const running: Asked[] = [];
  for (let count = 0; count < RUNNING; count++)
    running.push(world.add(uniquePrompt(RUNNING_PROMPT_TOKENS), tokensPerRequestMax));
  stepUntil(world, () => world.actor.counters.running === RUNNING);
  for (let count = 0; count < 20; count++) world.step();
  return running;
}

function endAll(world: SchedulerWorld, asked: readonly Asked[]): void {
  const released = world.released;
  for (const one of asked) world.abort(one);
  stepUntil(world, () => world.released === released + asked.length);
}

function stepUntil(world: SchedulerWorld, done: () => boolean): void {
  for (let count = 0; !done(); count++) {
    if (count > 2000) throw new Error("the bench's scheduler does not get where it should");
    world.step();
  }
}

function park(world: SchedulerWorld): Asked[] {
  const asked: Asked[] = [];
  for (let count = 0; count < PARKED; count++) {
    asked.push(world.add(uniquePrompt(PARKED_PROMPT_TOKENS), PARKED_PROMPT_TOKENS + BLOCK_SIZE));
  }
  stepUntil(world, () => world.lookups.open === PARKED);
  return asked;
}

/** `count` steps' times, and that each was a step of all running requests. */
function measure(world: SchedulerWorld, count: number, into: number[]): void {
  globalThis.gc?.();
  for (let step = 0; step < SETTLING_STEPS; step++) world.step();
  const before = world.tokensGenerated;
  for (let step = 0; step < count; step++) into.push(world.step());
  const tokens = world.tokensGenerated - before;
  if (tokens !== count * RUNNING)
    throw new Error(`${count} steps of ${RUNNING} requests generated ${tokens} tokens`);
}

/** Phases with and without parked requests take turns in one run, over the same running requests. */
export function measureParked(native: NativeBinding, report: Report): void {
  const world = openWorld(native, 1, PAIRS_PER_REQUEST * STEPS_PER_PAIR_MAX);
  let running: Asked[] = [];
  const without: number[] = [];
  const parked: number[] = [];
  const answered: number[] = [];
  for (let pair = 0; pair < WARM_UP_PAIRS + PAIRS; pair++) {
    const keep = pair >= WARM_UP_PAIRS;
    if (pair % PAIRS_PER_REQUEST === 0) {
      endAll(world, running);
      running = startRunning(world);
    }
    measure(world, PHASE_STEPS, keep ? without : []);
    const asked = park(world);
    measure(world, PHASE_STEPS, keep ? parked : []);
    if (world.lookups.open !== PARKED) throw new Error("lookups were answered while measured");
    stepUntil(world, () => world.lookups.open === 0);
    measure(world, PHASE_STEPS, keep ? answered : []);
    endAll(world, asked);
  }
  const base = median(without);
  report.figure("step, 64 running, median", base / 1e3, "us");
  report.figure("step, 64 running, p99", percentile(without, 0.99) / 1e3, "us");
  report.figure("step, and 1,000 parked on lookups, median", median(parked) / 1e3, "us");
  report.figure("step, and 1,000 parked on lookups, p99", percentile(parked, 0.99) / 1e3, "us");
  report.figure(
    "step, and 1,000 answered that wait for a place, median",
    median(answered) / 1e3,
    "us",
  );
  report.ratio("step-parked-over-unparked", median(parked) / base, "most", 1.2);
  report.ratio("step-parked-minus-unparked-us", (median(parked) - base) / 1e3, "most", 50);
}

/**
 * Lookups are asked and answered all the time: 1,000 are open, at 10 ms a step 100 new requests come with every step, and
 * each is given up by its client once it is answered.
 */
export function measureSteady(native: NativeBinding, report: Report): void {
  const stepMs = 10;
  const arrivals = (PARKED * stepMs) / LOOKUP_MS;
  const world = openWorld(native, stepMs, STEADY_STEPS + 2000);
  startRunning(world);
  const line: Asked[] = [];
  const turn = (): number => {
    for (let count = 0; count < arrivals; count++) {
      line.push(world.add(uniquePrompt(PARKED_PROMPT_TOKENS), PARKED_PROMPT_TOKENS + BLOCK_SIZE));
    }
    // Twelve steps after it came a request has been hashed, asked and answered.
    const old = line.length - 13 * arrivals;
    if (old > 0) for (const one of line.splice(0, old)) world.abort(one);
    return world.step();
  };
  for (let count = 0; count < 100; count++) turn();
  const without: number[] = [];
  const steady: number[] = [];
  for (let count = 0; count < STEADY_STEPS; count++) steady.push(turn());
  const { open } = world.lookups;
  if (open < 0.9 * PARKED || open > 1.1 * PARKED) throw new Error(`${open} lookups are open`);
  for (const one of line) world.abort(one);
  stepUntil(world, () => world.lookups.open === 0);
  for (let count = 0; count < STEADY_STEPS; count++) without.push(world.step());
  const added = median(steady) - median(without);
  report.figure(
    "step with 100 lookups asked and 100 answered in it, median",
    median(steady) / 1e3,
    "us",
  );
  report.figure(
    "  for each request (add, hashed, asked, answered, aborted)",
    added / 1e3 / arrivals,
    "us",
  );
}
