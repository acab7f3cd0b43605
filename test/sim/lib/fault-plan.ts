import type { SeededRandom } from "../../../src/actors/hosts/simulated/random.ts";
import { ACTOR_FRONT_END, ACTOR_LOADER, ACTOR_SCHEDULER } from "../../../src/actors/messages.ts";
import type { TraceEventName } from "../../../src/trace/events.ts";

export interface FaultPlan {
  /** Probability that a key of a get or put fails, that a batch fails, that a batch is slow (and by which factor). */
  readonly keyFailure: number;
  readonly batchFailure: number;
  readonly slowBatch: number;
  readonly slowFactor: number;
  /** Probability that a key vanishes between exists and get, has another size, fails its checksum, finds no room. */
  readonly eviction: number;
  readonly sizeMismatch: number;
  readonly checksumMismatch: number;
  readonly noSpace: number;
  /** Times at which the engine goes down and comes back. */
  readonly outages: readonly (readonly [downMs: number, upMs: number])[];
  readonly deaths: readonly PlannedDeath[];
  readonly deathsAtEvents: readonly DeathAtEvent[];
  /** For each death in turn, at which place to die the successor dies; 0: it does not. */
  readonly deathsOfSuccessors: readonly number[];
  /** Threads that get no processor for a while. */
  readonly freezes: readonly {
    readonly atMs: number;
    readonly actor: number;
    readonly forMs: number;
  }[];
  /** Probability that a message arrives a second time, later. */
  readonly repeats: number;
  readonly modelFailure: number;
}

/** When, which actor (ACTOR_ number), at which place to die of its next steps (0: between steps). */
export interface PlannedDeath {
  readonly atMs: number;
  readonly actor: number;
  readonly places: number;
}

/** After the `occurrence`-th event of that name `actor` dies, at its `places`-th place to die. */
export interface DeathAtEvent {
  readonly event: TraceEventName;
  readonly occurrence: number;
  readonly actor: number;
  readonly places: number;
}

export const NO_FAULTS: FaultPlan = {
  keyFailure: 0,
  batchFailure: 0,
  slowBatch: 0,
  slowFactor: 20,
  eviction: 0,
  sizeMismatch: 0,
  checksumMismatch: 0,
  noSpace: 0,
  outages: [],
  deaths: [],
  deathsAtEvents: [],
  deathsOfSuccessors: [],
  freezes: [],
  repeats: 0,
  modelFailure: 0,
};

/** Moments at which much is in flight. */
const DEADLY_EVENTS: readonly TraceEventName[] = [
  "lookupSubmitted",
  "hashBegin",
  "existsSubmitted",
  "getSubmitted",
  "getDone",
  "loadEnd",
  "saveBegin",
  "putSubmitted",
  "saveEnd",
  "blocksPinned",
  "blocksQuarantined",
  "requestPreempted",
  "stepScheduled",
  "stepFinished",
  "firstToken",
  "requestFinished",
  "slotReleased",
  "loadFailed",
];
/** Scheduler, lookup, loader, saver, model. */
const MORTAL_ACTORS = 5;
/** More places to die than the longest steps have (331 were seen); one step in a hundred has more than 40, one in two at most 7. */
const PLACES_MAX = 500;

export function planFaults(random: SeededRandom, spanMs: number): FaultPlan {
  const sometimes = (probability: number, most: number): number =>
    random.chance(probability) ? random.next() * most : 0;
  const several = <Item>(probability: number, most: number, draw: () => Item): Item[] =>
    random.chance(probability) ? Array.from({ length: 1 + random.below(most) }, draw) : [];
  const places = (): number => (random.chance(0.1) ? 0 : drawPlaces(random));
  return {
    keyFailure: sometimes(0.4, 0.3),
    batchFailure: sometimes(0.3, 0.3),
    slowBatch: sometimes(0.4, 0.3),
    slowFactor: random.chance(0.3) ? 100 : 20,
    eviction: sometimes(0.3, 0.3),
    sizeMismatch: sometimes(0.1, 0.2),
    checksumMismatch: sometimes(0.1, 0.2),
    noSpace: sometimes(0.1, 0.5),
    outages: several(0.25, 2, () => outage(random, spanMs)),
    deaths: [
      ...several(0.5, 4, () => ({
        atMs: random.next() * spanMs * 1.5,
        actor: random.below(MORTAL_ACTORS),
        places: places(),
      })),
      ...(random.chance(0.1) ? severalAtOnce(random, spanMs) : []),
    ],
    deathsAtEvents: several(0.4, 3, () => deathAtEvent(random, places())),
    deathsOfSuccessors: several(0.4, 3, () => (random.chance(0.3) ? 0 : drawPlaces(random))),
    freezes: several(0.3, 3, () => ({
      atMs: random.next() * spanMs,
      actor: random.below(MORTAL_ACTORS),
      forMs: random.next() * (random.chance(0.4) ? 400 : 40),
    })).concat(
      // The front end more often and for longer: nobody waits for it, so it may lag far behind.
      several(0.15, 2, () => ({
        atMs: random.next() * spanMs * 0.5,
        actor: ACTOR_FRONT_END,
        forMs: 200 + random.next() * 600,
      })),
    ),
    repeats: sometimes(0.4, 0.6),
    modelFailure: random.chance(0.03) ? 0.9 : sometimes(0.3, 0.2),
  };
}

/** Evenly by the logarithm: as often below 4 as from 125 on. */
function drawPlaces(random: SeededRandom): number {
  return Math.floor(PLACES_MAX ** random.next());
}

function deathAtEvent(random: SeededRandom, places: number): DeathAtEvent {
  // Loads are rarer than saves, and as delicate: half of these deaths fall into one, of the scheduler or the loader.
  if (random.chance(0.5))
    return {
      event: random.chance(0.5) ? "loadBegin" : "getSubmitted",
      occurrence: 1 + random.below(4),
      actor: random.chance(0.5) ? ACTOR_SCHEDULER : ACTOR_LOADER,
      places,
    };
  return {
    event: DEADLY_EVENTS[random.below(DEADLY_EVENTS.length)] ?? "saveBegin",
    occurrence: 1 + random.below(8),
    actor: random.below(MORTAL_ACTORS),
    places,
  };
}

/** All or some actors within one millisecond. */
function severalAtOnce(random: SeededRandom, spanMs: number): PlannedDeath[] {
  const atMs = random.next() * spanMs;
  const deaths: PlannedDeath[] = [];
  for (let actor = 0; actor < MORTAL_ACTORS; actor++)
    if (random.chance(0.7))
      deaths.push({ atMs: atMs + random.next(), actor, places: drawPlaces(random) });
  return deaths;
}

function outage(random: SeededRandom, spanMs: number): readonly [number, number] {
  const downMs = random.next() * spanMs;
  return [downMs, downMs + random.next() * spanMs];
}
