import type { ConnectorConfig } from "../../config/connector-config.ts";
import { readEnvironment } from "../../config/environment.ts";
import type { ConnectorEnvironment } from "../../config/environment.ts";
import { EXTRA_CONFIG_KEYS } from "../../config/extra-config.ts";
import { connectorNames, resolveKvLayout } from "../../config/kv-layout.ts";
import { asRecord, parseJsonRecord } from "../../config/python-value.ts";
import { readStoreFile } from "../../config/store-config.ts";
import type { StoreConfig } from "../../config/store-config.ts";
import { parseTransferConfig, STORE_CONNECTOR } from "../../config/transfer-config.ts";
import type { ConfigWarning } from "../../config/warnings.ts";

export type SettingSource =
  | "default"
  | "environment"
  | "store JSON"
  | "extra config"
  | "transfer config"
  | "connector";

/** One setting under the name that a user types. */
export interface Setting {
  readonly section:
    | "kv_transfer_config"
    | "kv_connector_extra_config"
    | "environment"
    | "store JSON"
    | "KV cache";
  readonly name: string;
  /** As it works; null: none, or not used. */
  readonly value: unknown;
  readonly source: SettingSource;
  /** Where the source does not say it all. */
  readonly reason?: string;
}

export interface EffectiveSettings {
  readonly settings: readonly Setting[];
  readonly warnings: readonly ConfigWarning[];
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Every setting of the connector, its value after defaults, and where it came from. `given`: as --kv-transfer-config. Throws
 * what the parsers throw: settings that do not work have no effective values.
 */
export function effectiveSettings(
  given: string | undefined,
  variables: Readonly<Record<string, string | undefined>>,
): EffectiveSettings {
  const environment = readEnvironment(variables);
  const { config, warnings } = parseTransferConfig(given, environment);
  const transfer = given === undefined ? {} : parseJsonRecord(given, "kv_transfer_config");
  const extra = asRecord(transfer["kv_connector_extra_config"] ?? {}, "kv_connector_extra_config");
  return {
    settings: [
      ...transferSettings(config, transfer),
      ...EXTRA_CONFIG_KEYS.map((key) => extraSetting(key, config, extra, environment)),
      ...environmentSettings(environment, variables),
      ...storeSettings(environment, config),
      layoutSetting(environment, transfer),
    ],
    warnings,
  };
}

/** As `attachConnector` finds it for a model whose KV-cache groups are alike, without MLA, and without a layout of its own. */
function layoutSetting(environment: ConnectorEnvironment, transfer: Json): Setting {
  const found = resolveKvLayout({
    stated: undefined,
    requested: environment.kvCacheLayout,
    connectors: connectorNames(transfer),
    model: null,
  });
  const { layout: value, reason } = found;
  const source =
    found.source === "environment" || found.source === "connector" ? found.source : "default";
  return { section: "KV cache", name: "layout", value, source, reason };
}

function transferSettings(config: ConnectorConfig, transfer: Json): Setting[] {
  const values: Json = {
    kv_connector: STORE_CONNECTOR,
    kv_role: config.role,
    kv_load_failure_policy: config.loadFailurePolicy,
    engine_id: config.engineId,
  };
  return Object.entries(values).map(([name, value]) => ({
    section: "kv_transfer_config",
    name,
    value,
    source: (transfer[name] ?? null) === null ? "default" : "transfer config",
  }));
}

/** For the others null is a value, as in vLLM: a cache_prefix of null is the text "None". */
const NULL_IS_UNSET: readonly string[] = [
  "engine",
  "engine_process",
  "preferred_segment",
  "lookup_rpc_role",
  "store_tp_size",
];

function extraSetting(
  name: string,
  config: ConnectorConfig,
  extra: Json,
  environment: ConnectorEnvironment,
): Setting {
  const section = "kv_connector_extra_config";
  const value = extraValue(name, config, extra);
  const isGiven = NULL_IS_UNSET.includes(name)
    ? (extra[name] ?? null) !== null
    : Object.hasOwn(extra, name);
  if (isGiven) return { section, name, value, source: "extra config" };
  const fromEnvironment =
    (name === "preferred_segment" && environment.preferredSegment !== null) ||
    (name === "engine" && environment.configPath !== null);
  return { section, name, value, source: fromEnvironment ? "environment" : "default" };
}

/** Settings whose place in the parsed configuration is not their own name in camelCase. */
const PLACES: Readonly<Record<string, (config: ConnectorConfig) => unknown>> = {
  pool_name: ({ local }) => local.poolName,
  pool_bytes_max: ({ local }) => local.bytesMax,
  pool_io_threads: ({ local }) => local.ioThreads,
  pool_verify_checksums: ({ local }) => local.verifyChecksums,
  store_tp_size: ({ storeTp }) => storeTp?.storeTpSize ?? null,
  enable_store_tp_lcm: ({ storeTp }) => storeTp?.enableStoreTpLcm ?? false,
  prefill_tp_sizes: ({ storeTp }) => storeTp?.prefillTpSizes ?? null,
};

function extraValue(name: string, config: ConnectorConfig, extra: Json): unknown {
  const place = PLACES[name];
  if (place !== undefined) return place(config);
  const camelCase = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const parsed = new Map<string, unknown>(Object.entries(config));
  // What is accepted without effect has no place of its own.
  return parsed.has(camelCase) ? parsed.get(camelCase) : (extra[name] ?? null);
}

/** null: not the connector's own. */
const VARIABLES: Readonly<Record<keyof ConnectorEnvironment, string | null>> = {
  configPath: "MOONCAKE_CONFIG_PATH",
  hashSeed: "PYTHONHASHSEED",
  bootstrapPort: "VLLM_MOONCAKE_BOOTSTRAP_PORT",
  preferredSegment: "MOONCAKE_PREFERRED_SEGMENT",
  requesterLocalHostname: "MOONCAKE_REQUESTER_LOCAL_HOSTNAME",
  storeTierLog: "VLLM_MOONCAKE_STORE_TIER_LOG",
  diskStagingUsableRatio: "VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO",
  offloadBufferBytes: "MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES",
  loadReceiveThreads: "VLLM_MOONCAKE_LOAD_RECV_THREADS",
  rpcBasePath: "VLLM_RPC_BASE_PATH",
  kvEventIntegerHashes: "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES",
  kvCacheLayout: "VLLM_KV_CACHE_LAYOUT",
  hostAddress: "VLLM_HOST_IP",
  python: "MOONCAKE_PYTHON",
  searchPath: null,
};

function environmentSettings(
  environment: ConnectorEnvironment,
  variables: Readonly<Record<string, string | undefined>>,
): Setting[] {
  const values = new Map<string, unknown>(Object.entries(environment));
  return Object.entries(VARIABLES).flatMap(([field, name]): Setting[] => {
    if (name === null) return [];
    const value = values.get(field) ?? null;
    // Some variables count as unset when they are empty.
    const set = variables[name] !== undefined && value !== null;
    return [{ section: "environment", name, value, source: set ? "environment" : "default" }];
  });
}

const STORE_FIELDS: Readonly<Record<keyof StoreConfig, string>> = {
  mode: "mode",
  metadataServer: "metadata_server",
  masterServerAddress: "master_server_address",
  globalSegmentBytes: "global_segment_size",
  localBufferBytes: "local_buffer_size",
  protocol: "protocol",
  deviceName: "device_name",
  enableOffload: "enable_offload",
  tenantId: "tenant_id",
};

/** Only of the engine that reads the file. */
function storeSettings(environment: ConnectorEnvironment, config: ConnectorConfig): Setting[] {
  if (config.mooncake === null || environment.configPath === null) return [];
  const file = readStoreFile(environment.configPath);
  const values = new Map<string, unknown>(Object.entries(config.mooncake.store));
  return Object.entries(STORE_FIELDS).map(([field, name]) => ({
    section: "store JSON",
    name,
    value: values.get(field) ?? null,
    source: Object.hasOwn(file, name) ? "store JSON" : "default",
  }));
}
