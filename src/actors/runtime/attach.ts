import { destination, pino } from "pino";
import { threadId } from "node:worker_threads";
import { RequestSlots } from "../../blocks/request-slots.ts";
import type { ConnectorConfig } from "../../config/connector-config.ts";
import type { KvCacheConfigInput } from "../../config/kv-cache-config.ts";
import { layoutLine } from "../../config/kv-layout.ts";
import { formatWarning } from "../../config/warnings.ts";
import { Connector } from "../../connector/connector.ts";
import type { BlockPool } from "../../connector/hooks.ts";
import { openPublisher, readKvEventSettings } from "../../events/settings.ts";
import { loadNative } from "../../native/load.ts";
import { openThreadTrace } from "../hosts/thread-trace.ts";
import { ACTOR_SCHEDULER } from "../messages.ts";
import type { Log } from "../step.ts";
import { readMembership } from "../mismatch-words.ts";
import { CONTROL_OWNER_WORD } from "../plan.ts";
import { resolveAttach } from "./attach-options.ts";
import { type AttachedConnector, faceOf } from "./attached-connector.ts";
import type { UserKvMemory, UserKvStorages } from "./kv-memory.ts";
import { Runtime } from "./runtime.ts";

export interface AttachOptions {
  /** What the KV cache of this rank looks like; the same everywhere in the pool. */
  readonly kvCache: KvCacheConfigInput;
  /** vLLM's KV-transfer configuration: JSON text or object. Absent: a private pool of this process, role kv_both. */
  readonly kvTransferConfig?: unknown;
  /** Your block allocator: told which blocks saves and loads hold. */
  readonly blockPool: BlockPool;
  /**
   * Your KV memory, with the segments of a block or as storages with the layers' views; absent: memory of the runtime's own, in
   * `kvCache.layout`. Without that it has the block outermost where it can (`AttachedConnector.kvMemory`), and behind it the axes in
   * the order of the layout that the start logs: that of VLLM_KV_CACHE_LAYOUT, or vLLM's default.
   */
  readonly kvMemory?: UserKvMemory | UserKvStorages;
  /**
   * vLLM's configuration of KV events: JSON text or object. With `enable_kv_cache_events` the scheduler side's `takeEvents` gives
   * events of saved blocks; with publisher zmq `publishEvents` sends them. Default: no events.
   */
  readonly kvEventsConfig?: unknown;
  /** Requests waiting, running or draining at a time. Default 1024. */
  readonly requestSlots?: number;
  /** Longest prompt with its answer, in tokens. Default: what fits in all blocks. */
  readonly tokensPerRequestMax?: number;
  /** Environment variables; default process.env. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /** Where this thread logs; default: pino, JSON lines on standard error. The actors' threads always log there. */
  readonly log?: Log;
  /** trace, debug, info, warn, error or silent. Default info. */
  readonly logLevel?: string;
}

/**
 * Starts the lookup, loader and saver actors and attaches the connector to the calling thread, for a serving loop with its
 * own scheduler (vLLM: constructing KVConnectorBase_V1 with both roles). Throws MooncakeKvError for a wrong configuration;
 * nothing runs then.
 */
export async function attachConnector(options: AttachOptions): Promise<AttachedConnector> {
  return (await attachRuntime(options)).attached;
}

/** `attachConnector` with what lies behind it: for tests and tools of this package, not for its users. */
export async function attachRuntime(
  options: AttachOptions,
): Promise<{ readonly attached: AttachedConnector; readonly runtime: Runtime }> {
  const resolved = resolveAttach(options);
  const { environment, connector, warnings, kvCache, layout, kvMemory, dimensions, logLevel } =
    resolved;
  const events = readKvEventSettings(options.kvEventsConfig, environment);
  const log =
    options.log ??
    pino({ name: "mooncake-kv", level: logLevel }, destination({ fd: 2, sync: true }));
  for (const warning of [...warnings, ...events.warnings])
    log.warn({ field: warning.field, value: warning.value }, formatWarning(warning));
  log.info({ layout: layout.layout }, layoutLine(layout));
  const native = loadNative();
  const publisher = await openPublisher(events.settings, {
    dataParallelRank: kvCache.dp.rank,
    log,
  });
  const { config: eventsConfig, integerHashes } = events.settings;
  const starting = Runtime.start({
    native,
    kvCache,
    connector,
    hashSeed: environment.hashSeed,
    dimensions,
    kvMemory,
    scheduler: null,
    trace: false,
    kvEvents: eventsConfig.enabled ? { integerHashes } : undefined,
    logLevel,
    log,
  });
  let runtime: Runtime | undefined;
  try {
    runtime = await starting;
    const embedded = connectTo(runtime, options.blockPool, connector, log);
    const managed = options.kvMemory === undefined ? runtime.regionIds : [];
    const storages = managed.map((regionId) => native.regionView(regionId));
    return { attached: faceOf(runtime, embedded, storages, publisher), runtime };
  } catch (error) {
    await runtime?.stop();
    await publisher?.close();
    throw error;
  }
}

function connectTo(
  runtime: Runtime,
  pool: BlockPool,
  settings: ConnectorConfig,
  log: Log,
): Connector {
  const { ends, plan, native } = runtime;
  const control = new Int32Array(plan.control);
  return new Connector({
    tables: ends.tables,
    settings,
    log,
    trace: openThreadTrace(plan, ACTOR_SCHEDULER, 1, native),
    nowMs: ends.nowMs,
    send: (actor, message) => ends.outboxes.send(actor, message),
    gone: ends.gone,
    flushWakes: () => ends.outboxes.flush(),
    pool,
    ranks: plan.workers.length,
    rules: plan.rules,
    slots: new RequestSlots(ends.tables),
    mailbox: ends.mailboxes[ACTOR_SCHEDULER]!,
    owner: control.subarray(CONTROL_OWNER_WORD, CONTROL_OWNER_WORD + 1),
    threadId,
    readMembership: () => readMembership(control),
    resetPool: (options) => runtime.resetPool(options),
    events: runtime.kvEvents,
    hashBlocks: (tokenPage, hashPage, extrasPage, fromBlock, toBlock) =>
      native.hashBlocks(plan.hasherId, tokenPage, hashPage, extrasPage, fromBlock, toBlock),
  });
}
