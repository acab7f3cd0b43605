import {
  OUTCOME_CANCELLED,
  OUTCOME_ENGINE_DOWN,
  OUTCOME_IDENTITY_MISMATCH,
  OUTCOME_NONE,
} from "../actors/messages.ts";

/** Whether this member may use the pool. Not known: before the first answer, and while the engine is down. */
export const MEMBERSHIP_UNKNOWN = 0;
export const MEMBERSHIP_OPEN = 1;
/** Other members keep other bytes under our keys. */
export const MEMBERSHIP_CLOSED = 2;
/** Published in the stead of the others while a reset is under way. */
export const MEMBERSHIP_PAUSED = 3;
/** By MEMBERSHIP_ number, PAUSED apart: that says nothing about the member. */
export const MEMBERSHIP_NAMES = ["unknown", "open", "closed"] as const;
export type MembershipName = (typeof MEMBERSHIP_NAMES)[number];

/**
 * Why the pool may not be used now: an OUTCOME_ code, OUTCOME_NONE when it may. What is not known counts as closed: nothing may be
 * loaded whose bytes nobody has vouched for.
 */
export function membershipRefusal(membership: number): number {
  if (membership === MEMBERSHIP_OPEN) return OUTCOME_NONE;
  if (membership === MEMBERSHIP_PAUSED) return OUTCOME_CANCELLED;
  return membership === MEMBERSHIP_CLOSED ? OUTCOME_IDENTITY_MISMATCH : OUTCOME_ENGINE_DOWN;
}
