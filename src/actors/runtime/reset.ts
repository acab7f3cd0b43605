import { setTimeout as sleep } from "node:timers/promises";
import { modelNameInKeys } from "../../keys/pool-keys.ts";
import { refuseReset, type ResetAnswer, type ResetOptions } from "../../connector/reset-answer.ts";
import { EngineCalls } from "../../store/engine-calls.ts";
import { resetPool } from "../pool-reset/pool-reset.ts";
import type { Runtime, RuntimeOptions } from "./runtime.ts";

/** `resetPool` for a runtime, on its own thread: then its identity is published anew, and KV events say that all blocks are gone. */
export async function resetRuntimePool(
  { native, engineId, ends, membership, kvEvents }: Runtime,
  { connector, kvCache, log }: Pick<RuntimeOptions, "connector" | "kvCache" | "log">,
  { force = false }: ResetOptions,
): Promise<ResetAnswer> {
  if (!force && membership.status().membership === "closed")
    return refuseReset(
      "IDENTITY_MISMATCH",
      "the pool is closed for this member: what lies under its keys belongs to others. Only a forced reset removes it",
    );
  const answer = await resetPool({
    calls: new EngineCalls({ native, engineId }),
    tables: ends.tables,
    cachePrefix: connector.cachePrefix,
    model: modelNameInKeys(kvCache.modelName),
    force,
    timeoutMs: connector.saveTimeoutMs,
    nowMs: ends.nowMs,
    sleep: (milliseconds) => sleep(milliseconds),
    log,
  });
  if (!answer.acknowledged) return answer;
  kvEvents?.cleared();
  await membership.checkAnew();
  return answer;
}
