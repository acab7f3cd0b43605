import { SeededRandom } from "../../../src/actors/hosts/simulated/random.ts";
import {
  MEMBERSHIP_CLOSED,
  MEMBERSHIP_OPEN,
  MEMBERSHIP_PAUSED,
  MEMBERSHIP_UNKNOWN,
} from "../../../src/connector/membership.ts";

/** Drawn from the seed by itself: other draws of a run stay what they are. */
const SALT = 0x1d37717e;
const CHANCE = 0.2;
const CHANGES_MAX = 6;
/** Requests arrive within so long. */
const SPAN_MS = 420;

const STATES = [MEMBERSHIP_UNKNOWN, MEMBERSHIP_OPEN, MEMBERSHIP_CLOSED, MEMBERSHIP_PAUSED];

/** MEMBERSHIP_ of one run by its time: in most runs open throughout, in the others it changes several times. */
export function membershipOf(seed: number): (nowMs: number) => number {
  const random = new SeededRandom(seed ^ SALT);
  if (!random.chance(CHANCE)) return () => MEMBERSHIP_OPEN;
  const count = 1 + random.below(CHANGES_MAX);
  const changes = Array.from({ length: count }, () => ({
    atMs: random.next() * SPAN_MS,
    state: STATES[random.below(STATES.length)] ?? MEMBERSHIP_OPEN,
  })).toSorted((left, right) => left.atMs - right.atMs);
  return (nowMs) => changes.findLast(({ atMs }) => atMs <= nowMs)?.state ?? MEMBERSHIP_OPEN;
}
