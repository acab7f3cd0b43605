import type { Tables } from "../../blocks/tables.ts";
import { refuseReset, type ResetAnswer } from "../../connector/reset-answer.ts";
import { transfersInFlight } from "../../connector/transfers-in-flight.ts";
import { EngineCode } from "../../store/engine.ts";
import type { EngineAnswer, EngineCalls, Removal } from "../../store/engine-calls.ts";
import type { Log } from "../step.ts";
import { LEASE_PROBE_ENDING, LeaseProbe } from "./lease-probe.ts";
import { resetScope, type ResetScopeInput } from "./reset-scope.ts";

export interface PoolResetParts extends ResetScopeInput {
  readonly calls: Pick<EngineCalls, "remove" | "putValue" | "getValue" | "removeKey">;
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
/** A load that had begun leases its keys anew, for longer than the leases that it was found by. */
const QUIET_MS = 2_000;
const KEYS_POLL_MS = 250;

/**
 * vLLM's reset: waits for the saves in flight, which would fill the pool again, and for loads, whose values must not be written over
 * while they are read; then removes this deployment's keys. vLLM takes keys that others have leased too; here they are waited for.
 * Whoever calls it holds new saves and lookups back until it is over. Never rejects for what the engine does.
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

/**
 * Checksums stay, some bytes each, until the pool needs their room: a block that a reader keeps leased stays unseen, and without its
 * checksum it would be used unchecked.
 */
async function remove(parts: PoolResetParts, deadlineMs: number): Promise<ResetAnswer> {
  const leftMs = (): number => Math.max(1, Math.ceil(deadlineMs - parts.nowMs()));
  const { nowMs } = parts;
  let probe: LeaseProbe | null = null;
  let quietSinceMs = Infinity;
  let removedKeys = 0;
  for (let round = 0; ; round++) {
    const roundBeganMs = nowMs();
    // Before the round: it finds what was leased until then.
    const leasesOver = probe === null ? false : await probe.leasesAreOver(leftMs());
    const answer = await removeOnce(parts, leftMs);
    // The engine has answered before: it is the time of the reset that is over.
    if (!answer.ok && answer.code === EngineCode.TIMED_OUT && round > 0)
      return keysLeft(parts, removedKeys);
    if (!answer.ok) return engineFailed(answer);
    const { removed, kept } = answer.value;
    removedKeys += removed;
    if (!leasesOver || removed > 0) quietSinceMs = Infinity;
    else quietSinceMs = Math.min(quietSinceMs, roundBeganMs);
    // An engine that does not tell what stays: with leases over, what rounds do not find is not there.
    if (kept === 0 || (kept === null && nowMs() >= quietSinceMs + QUIET_MS))
      return { acknowledged: true, removedKeys };
    if (kept === null) probe ??= await LeaseProbe.make(parts, leaseProbeKey(parts), leftMs());
    // A round goes through all keys of the pool; most of the time is left to others.
    const pauseMs = Math.max(KEYS_POLL_MS, 3 * (nowMs() - roundBeganMs));
    if (pauseMs >= leftMs()) return keysLeft(parts, removedKeys);
    await parts.sleep(pauseMs);
  }
}

async function removeOnce(
  parts: PoolResetParts,
  leftMs: () => number,
): Promise<EngineAnswer<Removal>> {
  let removed = 0;
  let kept: number | null = 0;
  for (const scope of resetScope(parts)) {
    const answer = await parts.calls.remove(scope, true, leftMs());
    if (!answer.ok) return answer;
    removed += answer.value.removed;
    kept = kept === null || answer.value.kept === null ? null : kept + answer.value.kept;
  }
  return { ok: true, value: { removed, kept } };
}

function leaseProbeKey({ cachePrefix, model }: PoolResetParts): string {
  return (cachePrefix === "" ? "" : `${cachePrefix}@`) + model + LEASE_PROBE_ENDING;
}

function keysLeft({ timeoutMs }: PoolResetParts, removedKeys: number): ResetAnswer {
  return refuseReset(
    "KEYS_LEFT",
    `${removedKeys} keys were removed, but some may be left after ${timeoutMs} ms: they are in use, or were looked up within the last seconds`,
  );
}

function engineFailed({ code, text }: Extract<EngineAnswer<unknown>, { ok: false }>): ResetAnswer {
  return refuseReset("ENGINE", `the storage engine answered ${code}: ${text}`);
}
