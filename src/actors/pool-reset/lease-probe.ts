import type { EngineCalls } from "../../store/engine-calls.ts";

export interface LeaseProbeParts {
  readonly calls: Pick<EngineCalls, "putValue" | "getValue" | "removeKey">;
  readonly nowMs: () => number;
}

/** A lease of Mooncake's, unless its master says otherwise, and a margin; for a pool that has no room for a probe. */
const LEASE_MS = 10_500;
/** Behind prefix and model, as the identity's; no block's key ends so. */
export const LEASE_PROBE_ENDING = "@mooncake-kv-lease-probe";

/**
 * Tells when all leases are over that were given before it was made: it leases a key of its own, and when that can be removed, so can
 * they. How long a lease lasts only the master knows.
 */
export class LeaseProbe {
  readonly #parts: LeaseProbeParts;
  readonly #key: string;
  readonly #latestMs: number | null;
  #over = false;

  private constructor(parts: LeaseProbeParts, key: string, latestMs: number | null) {
    this.#parts = parts;
    this.#key = key;
    this.#latestMs = latestMs;
  }

  static async make(parts: LeaseProbeParts, key: string, timeoutMs: number): Promise<LeaseProbe> {
    const { calls, nowMs } = parts;
    const put = await calls.putValue(key, Uint8Array.of(1), timeoutMs);
    // Reading leases.
    const read = put.ok ? await calls.getValue(key, timeoutMs) : put;
    const leased = read.ok && read.value !== null;
    return new LeaseProbe(parts, key, leased ? null : nowMs() + LEASE_MS);
  }

  async leasesAreOver(timeoutMs: number): Promise<boolean> {
    if (this.#latestMs !== null) return this.#parts.nowMs() >= this.#latestMs;
    if (this.#over) return true;
    // Absent: what removes the pool's keys has taken it too, which its lease would have kept it from.
    this.#over = (await this.#parts.calls.removeKey(this.#key, timeoutMs)).ok;
    return this.#over;
  }
}
