/**
 * Names that traces and metrics print for the numbers of the wire. The wire imports this layer and gives the same lists as
 * ACTOR_NAMES and OUTCOME_NAMES; a test holds them to the numbers.
 */

/** Lane of an actor in traces, value of the `actor` label in metrics; index: an ACTOR_ number. */
export const TRACE_LANES = [
  "scheduler",
  "lookup",
  "loader",
  "saver",
  "model",
  "frontEnd",
  "supervisor",
] as const;

/** Value of the `outcome` label and argument; index: an OUTCOME_ code. */
export const OUTCOME_LABELS = [
  "NONE",
  "IN_FLIGHT",
  "HIT",
  "MISS",
  "ENGINE_ERROR",
  "ENGINE_DOWN",
  "TIMEOUT",
  "IDENTITY_MISMATCH",
  "NO_SPACE",
  "CANCELLED",
  "BACK_PRESSURE",
] as const;

/** What a parked request waits for; index: the `why` of `requestParked` less 1. */
export const PARK_REASONS = ["hashes", "lookup", "load"] as const;

export function laneName(lane: number): string {
  return TRACE_LANES[lane] ?? `lane ${lane}`;
}
