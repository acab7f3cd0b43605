/**
 * vLLM's `--kv-transfer-config`, taken as it is: the same JSON gives the same connector here. Differences, all of them ours:
 * `kv_load_failure_policy` defaults to recompute (vLLM: fail), and `kv_connector_extra_config` may hold our own keys.
 */
import { fail } from "../errors.ts";
import { ENGINE_KINDS, KV_ROLES, LOAD_FAILURE_POLICIES } from "./connector-config.ts";
import type { ConnectorConfig, EngineKind, MooncakePoolConfig } from "./connector-config.ts";
import type { ConnectorEnvironment } from "./environment.ts";
import { checksumsOfOtherEngine } from "./pool-verify.ts";
import { groupsWithoutMaster, parseExtraConfig, segmentWithoutOwners } from "./extra-config.ts";
import { loadStoreConfig } from "./store-config.ts";
import { stagingSettings } from "./staging.ts";
import { asRecord, parseJsonRecord } from "./python-value.ts";
import { nearestName, shortName } from "./warnings.ts";
import type { ConfigWarning } from "./warnings.ts";
import { transferKeysWithoutEffect, variablesWithoutEffect } from "./without-effect.ts";

export const STORE_CONNECTOR = "MooncakeStoreConnector";
/** Connectors of vLLM that a user may well paste here; this build has the pool's connector only. */
const OTHER_CONNECTORS: readonly string[] = ["MooncakeConnector", "MultiConnector"];
const TRANSFER_KEYS: readonly string[] = [
  "kv_connector",
  "kv_role",
  "kv_connector_extra_config",
  "kv_load_failure_policy",
  "engine_id",
  "kv_buffer_device",
  "kv_port",
  "kv_connector_module_path",
  "enable_permute_local_kv",
];
const PRIVATE_POOL: ConfigWarning = {
  field: "engine",
  value: "local",
  problem: "the pool is private to this process: no other instance can reuse its blocks",
  remedy:
    'Set MOONCAKE_CONFIG_PATH to join a pool, or "engine": "local" to say that this is meant.',
};

export interface ParsedTransferConfig {
  readonly config: ConnectorConfig;
  readonly warnings: readonly ConfigWarning[];
}

/**
 * Parses the configuration (JSON text or object; undefined or null: none was given, so a private pool with role kv_both).
 *
 * `pool` false: the process uses no pool at all, so no engine is chosen (the config says local) and no store's file is asked for.
 *
 * Throws MooncakeKvError: MISSING, INVALID_VALUE, INVALID_TYPE, or UNSUPPORTED for what this build does not have. What is
 * accepted but probably not meant comes back as warnings.
 */
export function parseTransferConfig(
  given: unknown,
  environment: ConnectorEnvironment,
  pool = true,
): ParsedTransferConfig {
  const warnings: ConfigWarning[] = [];
  const none = given === undefined || given === null;
  const record = none
    ? { kv_connector: STORE_CONNECTOR, kv_role: "kv_both" }
    : typeof given === "string"
      ? parseJsonRecord(given, "kv_transfer_config")
      : asRecord(given, "kv_transfer_config");
  checkKeys(record);
  checkConnector(record["kv_connector"]);
  const role = choice(record["kv_role"], KV_ROLES, "kv_role");
  const policy = record["kv_load_failure_policy"] ?? "recompute";
  const extra = asRecord(record["kv_connector_extra_config"] ?? {}, "kv_connector_extra_config");
  const settings = parseExtraConfig(extra, environment.preferredSegment, warnings);
  const engineId = engineIdentity(record["engine_id"]);
  const loadFailurePolicy = choice(policy, LOAD_FAILURE_POLICIES, "kv_load_failure_policy");
  // Last, so that a mistake in any other setting is not hidden behind an engine that is not there.
  const engine = chooseEngine(extra["engine"], environment, { none, pool }, warnings);
  if (engine === "local") {
    warnings.push(...segmentWithoutOwners(extra, environment.preferredSegment));
    warnings.push(...groupsWithoutMaster(extra));
  }
  warnings.push(...checksumsOfOtherEngine(extra, engine));
  const mooncake =
    engine === "mooncake" ? joinedPool(environment, settings.preferredSegment, warnings) : null;
  const canSave = role !== "kv_consumer" || settings.saveDecodeCache;
  const config: ConnectorConfig = Object.freeze({
    engine,
    role,
    engineId,
    loadFailurePolicy,
    ...settings,
    // The local engine keeps everything in memory.
    staging: mooncake === null ? null : stagingSettings(mooncake.store, environment),
    mooncake,
    storeTierLog: environment.storeTierLog,
    lookupRpcFolder: environment.rpcBasePath,
    canSave,
    capacityOnly: role === "kv_consumer" && !settings.enableLookup && !canSave,
  });
  warnings.push(...transferKeysWithoutEffect(record));
  // Without a pool nobody expects anything of its variables.
  if (pool) warnings.push(...variablesWithoutEffect(environment, engine === "local"));
  if (config.capacityOnly)
    warnings.push({
      field: "kv_role",
      value: role,
      problem: "without enable_lookup and save_decode_cache a consumer neither loads nor saves",
      remedy: "Set enable_lookup to true, or leave the connector out.",
    });
  return { config, warnings };
}

/** The pool of the store's JSON file, which is read here. */
function joinedPool(
  environment: ConnectorEnvironment,
  preferredSegment: string | null,
  warnings: ConfigWarning[],
): MooncakePoolConfig {
  const { config: store, warnings: ofStore } = loadStoreConfig(
    environment.configPath,
    preferredSegment,
  );
  warnings.push(...ofStore);
  const { hostAddress, python, searchPath } = environment;
  const requesterLocalHostname = environment.requesterLocalHostname ?? hostAddress;
  return Object.freeze({ store, requesterLocalHostname, python, searchPath });
}

/**
 * The engine by the rule: a given `engine` wins; otherwise mooncake when MOONCAKE_CONFIG_PATH is set; a configuration that
 * was given without either is an error; otherwise local, with a warning.
 */
function chooseEngine(
  given: unknown,
  environment: ConnectorEnvironment,
  { none: noConfiguration, pool }: { readonly none: boolean; readonly pool: boolean },
  warnings: ConfigWarning[],
): EngineKind {
  const explicit = given !== undefined && given !== null;
  if (!pool) {
    if (explicit) choice(given, ENGINE_KINDS, "kv_connector_extra_config.engine");
    return "local";
  }
  const engine = explicit
    ? choice(given, ENGINE_KINDS, "kv_connector_extra_config.engine")
    : environment.configPath !== null
      ? "mooncake"
      : "local";
  if (engine === "mooncake") return engine;
  if (!explicit && !noConfiguration) {
    const remedy =
      'Set it to the store\'s JSON file, or set "engine": "local" in kv_connector_extra_config.';
    fail(
      "MISSING",
      "MOONCAKE_CONFIG_PATH",
      undefined,
      `is not set, but ${STORE_CONNECTOR} needs it`,
      remedy,
    );
  }
  if (!explicit) warnings.push(PRIVATE_POOL);
  return engine;
}

function checkConnector(connector: unknown): void {
  if (connector === STORE_CONNECTOR) return;
  const remedy = `Use "${STORE_CONNECTOR}".`;
  if (connector === undefined || connector === null) {
    fail("MISSING", "kv_connector", undefined, "is not given", remedy);
  }
  if (typeof connector === "string" && OTHER_CONNECTORS.includes(connector)) {
    fail(
      "UNSUPPORTED",
      "kv_connector",
      connector,
      "this build has the pool's connector only",
      remedy,
    );
  }
  fail(
    typeof connector === "string" ? "INVALID_VALUE" : "INVALID_TYPE",
    "kv_connector",
    connector,
    "is not a known connector",
    remedy,
  );
}

/** vLLM forbids unknown keys at this level, so a file with one would work here and fail there. */
function checkKeys(record: Readonly<Record<string, unknown>>): void {
  for (const key of Object.keys(record)) {
    if (TRANSFER_KEYS.includes(key)) continue;
    const nearest = nearestName(key, TRANSFER_KEYS);
    const remedy =
      nearest === null
        ? `Remove it; our own settings belong into kv_connector_extra_config.`
        : `Did you mean "${nearest}"?`;
    fail(
      "INVALID_VALUE",
      shortName(key),
      record[key],
      "is not a setting of the KV-transfer configuration",
      remedy,
    );
  }
}

function engineIdentity(value: unknown): string | null {
  if (value === undefined || value === null) return null;
  if (typeof value === "string" && value !== "") return value;
  return fail(
    "INVALID_TYPE",
    "engine_id",
    value,
    "must be a text that is not empty",
    "Put it in quotes, or remove it.",
  );
}

function choice<Name extends string>(value: unknown, names: readonly Name[], field: string): Name {
  const found = names.find((name) => name === value);
  if (found !== undefined) return found;
  const code =
    value === undefined || value === null
      ? "MISSING"
      : typeof value === "string"
        ? "INVALID_VALUE"
        : "INVALID_TYPE";
  return fail(
    code,
    field,
    value,
    code === "MISSING" ? "is not given" : "is not known",
    `Use one of ${names.join(", ")}.`,
  );
}
