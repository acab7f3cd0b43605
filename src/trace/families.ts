import { OUTCOME_LABELS, PARK_REASONS, TRACE_LANES } from "./lanes.ts";

/**
 * The closed list of metric families, as they are exposed.
 *
 * Names with `vllm:` are vLLM's, with its labels, units and buckets, so that dashboards made for vLLM show this runtime
 * too. vLLM declares counters without `_total` and its client library adds it when they are scraped; the names here are
 * the scraped ones. All families carry the labels `model_name` and `engine` besides those listed.
 */
export type FamilyKind = "counter" | "gauge" | "histogram";

export interface MetricLabel {
  readonly name: string;
  readonly values: readonly string[];
}

export interface MetricFamily {
  readonly kind: FamilyKind;
  readonly name: string;
  readonly help: string;
  /** The series of a family are all combinations of label values; the last label counts fastest. */
  readonly labels: readonly MetricLabel[];
  /** Upper bounds, ascending; histograms only. */
  readonly buckets: readonly number[];
}

export const STORE_OPERATIONS = ["lookup_exists", "save_exists", "save_put", "load_get"] as const;
/** How requests on the lookup socket ended; the failures after `miss` were answered with 0 tokens. */
export const LOOKUP_RPC_OUTCOMES = [
  "hit",
  "miss",
  "busy",
  "timeout",
  "engine_error",
  "wrong_hashes",
  "closed",
  "reset",
  "reset_failed",
  "refused",
] as const;
export type LookupRpcOutcome = (typeof LOOKUP_RPC_OUTCOMES)[number];
export const STORE_STATUSES = ["ok", "partial_failure", "error"] as const;
/** Tiers of the pool by their TIER_ number. */
export const TIER_LABELS = ["unknown", "memory", "disk"] as const;

/** What became of a loaded value by its checksum; the index is that of the label. */
export const CHECK_LABELS = ["verified", "unverified", "refused"] as const;
export const HIT_VERIFIED = 0;
export const HIT_UNVERIFIED = 1;
export const HIT_REFUSED = 2;

const counter = (
  name: string,
  help: string,
  labels: readonly MetricLabel[] = [],
): MetricFamily => ({
  kind: "counter",
  name,
  help,
  labels,
  buckets: [],
});
const gauge = (name: string, help: string, labels: readonly MetricLabel[] = []): MetricFamily => ({
  kind: "gauge",
  name,
  help,
  labels,
  buckets: [],
});
const histogram = (
  name: string,
  help: string,
  buckets: readonly number[],
  labels: readonly MetricLabel[] = [],
): MetricFamily => ({ kind: "histogram", name, help, labels, buckets });

const OPERATION_LABELS: readonly MetricLabel[] = [
  { name: "operation", values: STORE_OPERATIONS },
  { name: "status", values: STORE_STATUSES },
];
const OUTCOME: readonly MetricLabel[] = [{ name: "outcome", values: OUTCOME_LABELS }];
const TIER: readonly MetricLabel[] = [{ name: "tier", values: TIER_LABELS }];
const ACTOR: readonly MetricLabel[] = [{ name: "actor", values: TRACE_LANES }];

const STORE_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 4];
const FIRST_TOKEN_BUCKETS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
  160, 640, 2560,
];
const REQUEST_BUCKETS = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
];
const SYNC_LOOKUP_BUCKETS = [
  0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1,
];
const ASYNC_LOOKUP_BUCKETS = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10];

export const COUNTER_FAMILIES = {
  storeOperations: counter(
    "vllm:mooncake_store_operation_total",
    "Batches that the storage engine has answered.",
    OPERATION_LABELS,
  ),
  storeKeys: counter(
    "vllm:mooncake_store_operation_keys_total",
    "Pool keys in these batches.",
    OPERATION_LABELS,
  ),
  storeBytes: counter(
    "vllm:mooncake_store_operation_bytes_total",
    "Bytes of all values that these batches were to move, those that failed included, as in vLLM.",
    OPERATION_LABELS,
  ),
  storeFailedKeys: counter(
    "vllm:mooncake_store_operation_failed_keys_total",
    "Pool keys that failed in these batches.",
    OPERATION_LABELS,
  ),
  prefixCacheQueries: counter(
    "vllm:prefix_cache_queries_total",
    "Tokens looked up in the local prefix cache.",
  ),
  prefixCacheHits: counter(
    "vllm:prefix_cache_hits_total",
    "Tokens found in the local prefix cache.",
  ),
  externalPrefixCacheQueries: counter(
    "vllm:external_prefix_cache_queries_total",
    "Tokens looked up in the pool.",
  ),
  externalPrefixCacheHits: counter(
    "vllm:external_prefix_cache_hits_total",
    "Tokens found in the pool.",
  ),
  preemptions: counter(
    "vllm:num_preemptions_total",
    "Times that a running request lost its blocks.",
  ),
  loadBackPressure: counter(
    "mooncake_kv_load_back_pressure_total",
    "Hits for which no load could be started: outcome BACK_PRESSURE.",
  ),
  postponedSaves: counter(
    "mooncake_kv_saves_postponed_total",
    "Saves left for later because all job records or pages were in use, or hashes were not there yet.",
  ),
  savesAfterEnd: counter(
    "mooncake_kv_saves_after_end_total",
    "Saves left for later that were made after their request had ended.",
  ),
  lostSaves: counter(
    "mooncake_kv_saves_lost_total",
    "Saves left for later that were given up after their request had ended.",
  ),
  lookups: counter("mooncake_kv_lookups_total", "Pool lookups by how they ended.", OUTCOME),
  lookupRpc: counter(
    "mooncake_kv_lookup_rpc_total",
    "Requests of other processes on the lookup socket by how they ended.",
    [{ name: "outcome", values: LOOKUP_RPC_OUTCOMES }],
  ),
  loads: counter("mooncake_kv_loads_total", "Load jobs by how they ended.", OUTCOME),
  loadedKeys: counter(
    "mooncake_kv_loaded_keys_total",
    "Keys asked for by loads, by the tier of the pool that had them.",
    TIER,
  ),
  loadedBytes: counter(
    "mooncake_kv_loaded_bytes_total",
    "Bytes loaded, by the tier of the pool that they came from.",
    TIER,
  ),
  hitTokens: counter(
    "mooncake_kv_hit_tokens_total",
    "Tokens of the blocks that loads asked the pool for: whose bytes fit their checksum, were used without one, or were refused (changed, removed while they were read, unreadable).",
    [{ name: "check", values: CHECK_LABELS }],
  ),
  saves: counter("mooncake_kv_saves_total", "Save jobs by how they ended.", OUTCOME),
  actorRestarts: counter(
    "mooncake_kv_actor_restarts_total",
    "Times that an actor was started anew.",
    ACTOR,
  ),
  staleMessages: counter(
    "mooncake_kv_stale_messages_total",
    "Late, duplicate or unknown messages that an actor dropped.",
    ACTOR,
  ),
  traceLostEvents: counter(
    "mooncake_kv_trace_lost_events_total",
    "Trace events dropped because an actor's ring was full.",
    ACTOR,
  ),
  kvEventsPublished: counter(
    "mooncake_kv_events_published_total",
    "KV events handed to the publisher.",
  ),
  kvEventsLost: counter(
    "mooncake_kv_events_lost_total",
    "KV events that found a ring or the publisher's queue full.",
  ),
  poolEvictions: counter(
    "mooncake_kv_pool_evictions_total",
    "Keys that the pool evicted to make room.",
  ),
  engineReopenings: counter(
    "mooncake_kv_engine_reopenings_total",
    "Times that the storage engine was opened again after it was lost.",
  ),
} as const satisfies Record<string, MetricFamily>;

export const GAUGE_FAMILIES = {
  requestsRunning: gauge(
    "vllm:num_requests_running",
    "Requests that have blocks and take part in steps.",
  ),
  requestsWaiting: gauge("vllm:num_requests_waiting", "Requests that wait, parked ones included."),
  cacheUsage: gauge("vllm:kv_cache_usage_perc", "Part of the KV blocks in use, from 0 to 1."),
  requestSlotsInUse: gauge(
    "mooncake_kv_request_slots_in_use",
    "Request slots in use: running, waiting, draining.",
  ),
  pinnedBlocks: gauge("mooncake_kv_pinned_blocks", "KV blocks held for a save or a load."),
  quarantinedBlocks: gauge(
    "mooncake_kv_quarantined_blocks",
    "KV blocks of departed requests that an engine batch still uses.",
  ),
  requestsParked: gauge("mooncake_kv_requests_parked", "Requests that wait, by what for.", [
    { name: "reason", values: PARK_REASONS },
  ]),
  batchesInFlight: gauge(
    "mooncake_kv_batches_in_flight",
    "Batches that the storage engine has not answered.",
    ACTOR,
  ),
  poolBytes: gauge("mooncake_kv_pool_bytes", "Bytes stored in the pool."),
  poolCapacityBytes: gauge("mooncake_kv_pool_capacity_bytes", "Bytes that the pool has room for."),
  poolKeys: gauge("mooncake_kv_pool_keys", "Keys in the pool."),
  engineOpen: gauge("mooncake_kv_engine_open", "1 while the storage engine is open, else 0."),
  poolClosed: gauge(
    "mooncake_kv_pool_closed",
    "1 while the pool's other members keep other bytes under our keys and this one computes, else 0.",
  ),
  engineHungCalls: gauge(
    "mooncake_kv_engine_hung_calls",
    "Calls that have been in the storage engine for more than 10 s.",
  ),
} as const satisfies Record<string, MetricFamily>;

export const HISTOGRAM_FAMILIES = {
  storeOperationTime: histogram(
    "vllm:mooncake_store_operation_time_seconds",
    "Time from handing a batch to the storage engine to its answer.",
    STORE_BUCKETS,
    OPERATION_LABELS,
  ),
  timeToFirstToken: histogram(
    "vllm:time_to_first_token_seconds",
    "Time from taking a request to its first token.",
    FIRST_TOKEN_BUCKETS,
  ),
  requestLatency: histogram(
    "vllm:e2e_request_latency_seconds",
    "Time from taking a request to its end.",
    REQUEST_BUCKETS,
  ),
  syncLookupDelay: histogram(
    "vllm:kv_offload_lookup_sync_delay_seconds",
    "Time that one lookup call held up the scheduler.",
    SYNC_LOOKUP_BUCKETS,
  ),
  asyncLookupDelay: histogram(
    "vllm:kv_offload_lookup_async_delay_seconds",
    "Time from a request's lookup to the call that saw its answer.",
    ASYNC_LOOKUP_BUCKETS,
  ),
} as const satisfies Record<string, MetricFamily>;

/** Number of series of a family. */
export function seriesCount(family: MetricFamily): number {
  return family.labels.reduce((product, label) => product * label.values.length, 1);
}

/** Label values of one series. */
export function seriesLabels(family: MetricFamily, series: number): Record<string, string> {
  const labels: Record<string, string> = {};
  let rest = series;
  for (const label of family.labels.toReversed()) {
    labels[label.name] = label.values[rest % label.values.length] ?? "";
    rest = Math.floor(rest / label.values.length);
  }
  return labels;
}
