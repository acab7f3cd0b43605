import { OUTCOME_CANCELLED, OUTCOME_NONE } from "../actors/messages.ts";
import type { Lookups } from "./lookups.ts";
import { MEMBERSHIP_OPEN, MEMBERSHIP_PAUSED, membershipRefusal } from "./membership.ts";
import type { SchedulerPorts } from "./ports.ts";

/** Whether the scheduler side may look into the pool and save to it: as a member that agrees with the others, and not amid a reset. */
export class PoolGate {
  readonly #ports: Pick<SchedulerPorts, "readMembership">;
  readonly #lookups: Pick<Lookups, "forgetAnswers">;
  /** By the attached loop's own reset. */
  #paused = false;
  /** As seen last: a reset that another process or the HTTP server has asked for. */
  #heldBack = false;
  /** Resets that were seen to begin. */
  pauses = 0;

  constructor(
    ports: Pick<SchedulerPorts, "readMembership">,
    lookups: Pick<Lookups, "forgetAnswers">,
  ) {
    this.#ports = ports;
    this.#lookups = lookups;
  }

  /** Why the pool is not used now, an OUTCOME_ code; OUTCOME_NONE: it is. */
  refusal(): number {
    const membership = this.#ports.readMembership?.() ?? MEMBERSHIP_OPEN;
    const heldBack = membership === MEMBERSHIP_PAUSED;
    if (heldBack && !this.#heldBack) {
      this.pauses++;
      this.#lookups.forgetAnswers();
    }
    this.#heldBack = heldBack;
    const refusal = membershipRefusal(membership);
    return refusal === OUTCOME_NONE && this.#paused ? OUTCOME_CANCELLED : refusal;
  }

  /** A reset is under way. */
  get paused(): boolean {
    return this.#paused;
  }

  /** For a reset: until `resume` nothing is looked up or saved, and what was found before does not count any more. */
  pause(): void {
    this.#paused = true;
    this.pauses++;
    this.#lookups.forgetAnswers();
  }
  resume(): void {
    this.#paused = false;
  }
}
