import type { Tables } from "../../blocks/tables.ts";
import { IDENTITY_KEY_ENDING } from "../../connector/identity/identity.ts";
import { refuseReset, type ResetAnswer } from "../../connector/reset-answer.ts";
import { transfersInFlight } from "../../connector/transfers-in-flight.ts";
import type { EngineAnswer, EngineCalls } from "../../store/engine-calls.ts";
import type { Log } from "../step.ts";
import { resetScope, type ResetScopeInput } from "./reset-scope.ts";

export interface PoolResetParts extends ResetScopeInput {
  readonly calls: Pick<EngineCalls, "removePrefix" | "removeAll" | "keys">;
  readonly tables: Tables;
  /** Bound of everything together: save_timeout_ms. */
  readonly timeoutMs: number;
  readonly nowMs: () => number;
  readonly sleep: (milliseconds: number) => Promise<void>;
  /** The runtime stops. */
  readonly ended: () => boolean;
  readonly log: Log;
}

const DRAIN_POLL_MS = 5;
/** Keys that somebody has just looked up are leased for 10 s (unless the master says otherwise), and stay until then. */
const LEASE_MS = 10_500;
const KEYS_POLL_MS = 250;
const KEYS_LISTED_MAX = 16;

/**
 * vLLM's reset: waits for the saves in flight, which would fill the pool again, and for loads, whose values must not be written over
 * while they are read; then removes this deployment's keys. Whoever calls it holds new saves and lookups back until it is over.
 * Never rejects for what the engine does.
 */
export async function resetPool(parts: PoolResetParts): Promise<ResetAnswer> {
  const deadlineMs = parts.nowMs() + parts.timeoutMs;
  const answer = (await drain(parts, deadlineMs)) ?? (await remove(parts, deadlineMs));
  const { log, cachePrefix, model, force } = parts;
  const fields = { ...answer, cachePrefix, model, force };
  if (answer.acknowledged) log.info(fields, "the pool was reset");
  else log.warn(fields, `the pool was not reset: ${answer.problem}`);
  return answer;
}

async function drain(parts: PoolResetParts, deadlineMs: number): Promise<ResetAnswer | null> {
  for (;;) {
    const { saves, loads } = transfersInFlight(parts.tables);
    if (saves === 0 && loads === 0) return null;
    if (parts.ended()) return refuseReset("ENGINE", "the runtime stops");
    if (parts.nowMs() >= deadlineMs)
      return refuseReset(
        saves > 0 ? "SAVES_IN_FLIGHT" : "LOADS_IN_FLIGHT",
        `${saves} saves and ${loads} loads did not end within ${parts.timeoutMs} ms`,
      );
    await parts.sleep(DRAIN_POLL_MS);
  }
}

async function remove(parts: PoolResetParts, deadlineMs: number): Promise<ResetAnswer> {
  const { calls, nowMs } = parts;
  const leftMs = (): number => Math.max(1, Math.ceil(deadlineMs - nowMs()));
  const scope = resetScope(parts);
  if (scope === null) {
    const removed = await calls.removeAll(true, leftMs());
    return removed.ok ? { acknowledged: true, removedKeys: removed.value } : engineFailed(removed);
  }
  let removedKeys = 0;
  const leasesEndMs = nowMs() + LEASE_MS;
  for (;;) {
    let removedNow = 0;
    let left = LEFT_NONE;
    for (const prefix of scope) {
      const removed = await calls.removePrefix(prefix, leftMs(), parts.force);
      if (!removed.ok) return engineFailed(removed);
      removedNow += removed.value;
      left = Math.max(left, await keysLeft(parts, prefix, leftMs()));
    }
    removedKeys += removedNow;
    // An engine that lists nothing: with leases over, or passed over, what a round does not find is not there.
    if (left === LEFT_UNKNOWN && removedNow === 0 && (parts.force || nowMs() >= leasesEndMs))
      left = LEFT_NONE;
    if (left === LEFT_NONE) return { acknowledged: true, removedKeys };
    if (nowMs() >= deadlineMs)
      return refuseReset(
        "KEYS_LEFT",
        `${removedKeys} keys were removed, but some were still there after ${parts.timeoutMs} ms: they are in use, or others save`,
      );
    await parts.sleep(KEYS_POLL_MS);
  }
}

const LEFT_NONE = 0;
const LEFT_UNKNOWN = 1;
const LEFT_SOME = 2;

/** LEFT_UNKNOWN: Mooncake's store lists no keys. */
async function keysLeft(
  { calls }: PoolResetParts,
  prefix: string,
  timeoutMs: number,
): Promise<number> {
  const left = await calls.keys(prefix, KEYS_LISTED_MAX, timeoutMs);
  if (!left.ok) return LEFT_UNKNOWN;
  // Another member may publish its identity again at any time.
  return left.value.some((key) => !key.endsWith(IDENTITY_KEY_ENDING)) ? LEFT_SOME : LEFT_NONE;
}

function engineFailed({ code, text }: Extract<EngineAnswer<unknown>, { ok: false }>): ResetAnswer {
  return refuseReset("ENGINE", `the storage engine answered ${code}: ${text}`);
}
