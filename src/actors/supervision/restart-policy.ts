export interface RestartLimits {
  /** Wait after the first death; doubled with each further one. */
  readonly firstDelayMs: number;
  readonly delayMsMax: number;
  /** So long without a death, and everything before is forgotten. */
  readonly quietMs: number;
  /** Deaths without such a quiet time between them; one more and the actor is given up. */
  readonly deathsMax: number;
}

/** Two minutes of trying at least: what an actor lacks (memory, a file) may come back. */
export const RESTART_LIMITS: RestartLimits = {
  firstDelayMs: 10,
  delayMsMax: 2000,
  quietMs: 60_000,
  deathsMax: 60,
};

/**
 * How long does a dead actor wait before it starts again? Doubling delays bound what an actor that dies at once can cost. One
 * that keeps dying is given up: until then requests wait for it again and again, afterwards they know that nothing comes.
 */
export class RestartPolicy {
  /** The thread has been ready at least once: only then is a death answered by a restart (else the start has failed). */
  everReady = false;
  readonly #limits: RestartLimits;
  #delayMs: number;
  #deaths = 0;
  #lastDeathMs = -Infinity;

  constructor(limits: RestartLimits = RESTART_LIMITS) {
    this.#limits = limits;
    this.#delayMs = limits.firstDelayMs;
  }

  /** Milliseconds to wait after a death at `nowMs`; Infinity: do not restart. */
  delayMs(nowMs: number): number {
    const { firstDelayMs, delayMsMax, quietMs, deathsMax } = this.#limits;
    if (nowMs - this.#lastDeathMs > quietMs) {
      this.#delayMs = firstDelayMs;
      this.#deaths = 0;
    }
    this.#lastDeathMs = nowMs;
    if (++this.#deaths > deathsMax) return Infinity;
    const delayMs = this.#delayMs;
    this.#delayMs = Math.min(this.#delayMs * 2, delayMsMax);
    return delayMs;
  }
}
