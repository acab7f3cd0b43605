const FIRST_DELAY_MS = 10;
const DELAY_MS_MAX = 2000;
const QUIET_MS = 60_000;

/**
 * How long does a dead actor wait before it starts again? Doubling delays, up to one start in two seconds: that bounds what an
 * actor that dies at once can cost, and it is never given up, because what it lacks (memory, a file) may come back. Requests
 * go on without it meanwhile, and `/health` says so.
 */
export class RestartPolicy {
  /** The thread has been ready at least once: only then is a death answered by a restart (else the start has failed). */
  everReady = false;
  #delayMs = FIRST_DELAY_MS;
  #lastDeathMs = -Infinity;

  /** Milliseconds to wait after a death at `nowMs`; the first delay again after a minute without a death. */
  delayMs(nowMs: number): number {
    if (nowMs - this.#lastDeathMs > QUIET_MS) this.#delayMs = FIRST_DELAY_MS;
    this.#lastDeathMs = nowMs;
    const delayMs = this.#delayMs;
    this.#delayMs = Math.min(this.#delayMs * 2, DELAY_MS_MAX);
    return delayMs;
  }
}
