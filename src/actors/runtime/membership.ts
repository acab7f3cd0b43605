import type { ConnectorConfig } from "../../config/connector-config.ts";
import { HASH_ALGORITHMS, type KvCacheConfig } from "../../config/kv-cache-config.ts";
import { identityKey, poolIdentity } from "../../connector/identity/identity.ts";
import { noneHashIsRandom } from "../../keys/none-hash.ts";
import { keyNamespaceOf } from "../../keys/pool-keys.ts";
import type { NativeBinding } from "../../native/binding.ts";
import { EngineCalls } from "../../store/engine-calls.ts";
import type { TraceWriter } from "../../trace/events.ts";
import { MismatchWords } from "../mismatch-words.ts";
import { CONTROL_MEMBERSHIP_WORD } from "../plan.ts";
import type { Log } from "../step.ts";
import type { EngineWatch } from "./engine-watch.ts";
import { IdentityCheck } from "./identity-check.ts";
import { IDENTITY_INTERVALS } from "./identity-intervals.ts";
import type { RuntimeOptions } from "./runtime.ts";
import { SizeWatch } from "./size-watch.ts";

/** One answer of the pool about its members; lookups have no more patience either. */
const CALL_TIMEOUT_MAX_MS = 5000;

export interface MembershipParts {
  readonly native: NativeBinding;
  readonly engineId: number;
  readonly engine: EngineWatch;
  readonly kvCache: KvCacheConfig;
  readonly connector: ConnectorConfig;
  readonly noneHash: Uint8Array;
  readonly nowMs: () => number;
  /** The runtime's control words. */
  readonly control: SharedArrayBuffer;
  /** Prefixes of the key space that the loader uses. */
  readonly keyPrefixes: readonly string[];
  readonly trace: TraceWriter;
  readonly log: Log;
}

/** Begins to compare this runtime's identity with the pool's, whenever its engine opens and every minute, until it is closed. */
export function watchMembership(parts: MembershipParts): IdentityCheck {
  const { native, engineId, engine, kvCache, connector, noneHash, nowMs, trace, log } = parts;
  const control = new Int32Array(parts.control);
  const { storeTp = null, cachePrefix } = keyNamespaceOf(connector);
  const calls = new EngineCalls({ native, engineId });
  const timeoutMs = Math.min(connector.lookupTimeoutMs, CALL_TIMEOUT_MAX_MS);
  const sizes = new SizeWatch({
    calls,
    mismatch: new MismatchWords(parts.control),
    prefixes: parts.keyPrefixes,
    digestBytes: HASH_ALGORITHMS[kvCache.hashAlgorithm].digestBytes,
    timeoutMs,
    trace,
    log,
  });
  const check = new IdentityCheck({
    calls,
    sizes,
    key: identityKey(kvCache.modelName, cachePrefix),
    identity: poolIdentity({ kvCache, cachePrefix, noneHash, storeTp }),
    timeoutMs,
    nowMs,
    intervals: IDENTITY_INTERVALS,
    after: (delayMs, action) => {
      const timer = setTimeout(action, delayMs);
      // A process that has nothing else to do may end.
      timer.unref();
      return () => clearTimeout(timer);
    },
    // Pairs with the scheduler side's load, before it looks into the pool or saves.
    publish: (membership) => void Atomics.store(control, CONTROL_MEMBERSHIP_WORD, membership),
    trace,
    log,
  });
  engine.onChange((status) => check.engineChanged(status));
  check.engineChanged(engine.status());
  return check;
}

/** A pool whose members draw their own NONE_HASH shares nothing, and nothing else would say so. */
export function warnOfRandomHashes({
  kvCache,
  hashSeed,
  log,
}: Pick<RuntimeOptions, "kvCache" | "hashSeed" | "log">): void {
  const { hashAlgorithm } = kvCache;
  if (!noneHashIsRandom(hashSeed, hashAlgorithm)) return;
  log.warn(
    { field: "PYTHONHASHSEED", value: null, hashAlgorithm },
    `PYTHONHASHSEED is not set, and ${hashAlgorithm} then draws a random start for its block hashes: no block is shared with ` +
      "any other process. Set it to the same number in every process that shares the pool.",
  );
}
