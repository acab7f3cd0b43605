const FIRST_DELAY_MS = 10;
const DELAY_MS_MAX = 2000;
const WINDOW_MS = 60_000;
const DEATHS_IN_WINDOW_MAX = 60;

/** When may a dead actor start again? Doubling delays; given up after too many deaths in one window. */
export class RestartPolicy {
  /** The thread has been ready at least once: only then is a death answered by a restart (else the start has failed). */
  everReady = false;
  #deathTimes: number[] = [];
  #delayMs = FIRST_DELAY_MS;
  #lastDeathMs = -Infinity;

  /** Milliseconds to wait after a death at `nowMs`; Infinity: do not restart. */
  next(nowMs: number): number {
    if (nowMs - this.#lastDeathMs > WINDOW_MS) this.#delayMs = FIRST_DELAY_MS;
    this.#lastDeathMs = nowMs;
    this.#deathTimes = this.#deathTimes.filter((time) => nowMs - time < WINDOW_MS);
    this.#deathTimes.push(nowMs);
    if (this.#deathTimes.length > DEATHS_IN_WINDOW_MAX) return Infinity;
    const delayMs = this.#delayMs;
    this.#delayMs = Math.min(this.#delayMs * 2, DELAY_MS_MAX);
    return delayMs;
  }
}
