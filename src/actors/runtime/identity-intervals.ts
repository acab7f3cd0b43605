/** When the identity of a pool's members is read. */
export interface IdentityIntervals {
  /** After an answer. */
  readonly periodMs: number;
  /** After the first failure; each further one doubles it. */
  readonly retryMinMs: number;
  /** Longest retry for `soonForMs` from the first failure on; afterwards `periodMs` is. */
  readonly soonMaxMs: number;
  readonly soonForMs: number;
  /** A value that nobody's identity can be is replaced by a member that knows nothing of the pool after so long. */
  readonly replaceAfterMs: number;
}

/**
 * A pool that loses the owner of its identity key fails every read of it until its master has given that owner up, 10 s by default,
 * and is as good as new then. Half a minute covers that and a restart; whatever takes longer is not over within seconds.
 */
export const IDENTITY_INTERVALS: IdentityIntervals = {
  periodMs: 60_000,
  retryMinMs: 500,
  soonMaxMs: 2_000,
  soonForMs: 30_000,
  // Members that have agreed before look once a minute, and put back what they know.
  replaceAfterMs: 90_000,
};

/** How long to wait until the next read. */
export class IdentityRetries {
  readonly #intervals: IdentityIntervals;
  readonly #nowMs: () => number;
  #failingSinceMs: number | undefined;
  #retryMs = 0;

  constructor(intervals: IdentityIntervals, nowMs: () => number) {
    this.#intervals = intervals;
    this.#nowMs = nowMs;
  }

  /** There was an answer, or the engine is another one. */
  settled(): number {
    this.#failingSinceMs = undefined;
    return this.#intervals.periodMs;
  }

  failed(): number {
    const { periodMs, retryMinMs, soonMaxMs, soonForMs } = this.#intervals;
    const nowMs = this.#nowMs();
    this.#retryMs = this.#failingSinceMs === undefined ? retryMinMs : 2 * this.#retryMs;
    this.#failingSinceMs ??= nowMs;
    const soon = nowMs - this.#failingSinceMs < soonForMs;
    this.#retryMs = Math.min(this.#retryMs, soon ? soonMaxMs : periodMs);
    return this.#retryMs;
  }
}
