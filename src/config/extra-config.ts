/**
 * `kv_connector_extra_config`: vLLM's keys with vLLM's meaning, and our own snake_case keys beside them, so that one file
 * serves both.
 */
import { MooncakeKvError } from "../errors.ts";
import { ENGINE_PROCESSES, LOOKUP_RPC_ROLES } from "./connector-config.ts";
import type {
  ConnectorConfig,
  EngineProcess,
  LocalPoolConfig,
  LookupRpcRole,
  StoreTpSettings,
} from "./connector-config.ts";
import { poolVerify } from "./pool-verify.ts";
import { pythonSwitch, pythonText } from "./python-value.ts";
import { parseSizeBytes } from "./sizes.ts";
import { unknownKeyWarnings } from "./warnings.ts";
import type { ConfigWarning } from "./warnings.ts";

const PATH = "kv_connector_extra_config.";
const VLLM_KEYS: readonly string[] = [
  "load_async",
  "lookup_async",
  "enable_cross_layers_blocks",
  "lookup_rpc_port",
  "cache_prefix",
  "enable_lookup",
  "save_decode_cache",
  "preferred_segment",
  "store_tp_size",
  "enable_store_tp_lcm",
  "prefill_tp_sizes",
  "enable_group_semantics",
];
const OWN_KEYS: readonly string[] = [
  "engine",
  "engine_process",
  "engine_start_timeout_ms",
  "lookup_rpc_role",
  "lookup_timeout_ms",
  "load_timeout_ms",
  "save_timeout_ms",
  "shutdown_timeout_ms",
  "min_load_tokens",
  "pool_name",
  "pool_bytes_max",
  "pool_io_threads",
  "pool_verify",
  "pool_verify_checksums",
];
/** vLLM's setting of GPU allocation: it changes neither keys nor bytes. */
const WITHOUT_EFFECT: readonly string[] = ["custom_mem_pool"];

export const EXTRA_CONFIG_KEYS: readonly string[] = [...VLLM_KEYS, ...OWN_KEYS, ...WITHOUT_EFFECT];

export type ExtraSettings = Omit<
  ConnectorConfig,
  | "engine"
  | "role"
  | "engineId"
  | "loadFailurePolicy"
  | "canSave"
  | "capacityOnly"
  | "lookupRpcFolder"
  | "staging"
  | "storeTierLog"
  | "mooncake"
>;

/** Parses all keys but `engine`. Throws INVALID_VALUE, INVALID_TYPE or UNSUPPORTED; adds to `warnings`. */
export function parseExtraConfig(
  extra: Readonly<Record<string, unknown>>,
  environmentSegment: string | null,
  warnings: ConfigWarning[],
): ExtraSettings {
  warnings.push(...unknownKeyWarnings(extra, EXTRA_CONFIG_KEYS, PATH));
  for (const key of WITHOUT_EFFECT) {
    if (!Object.hasOwn(extra, key)) continue;
    const problem = "this setting of vLLM has no effect here";
    warnings.push({
      field: PATH + key,
      value: extra[key],
      problem,
      remedy: "Nothing need be done; remove it to silence this.",
    });
  }
  warnings.push(...misreadSwitches(extra));
  const truth = (key: string, absent: boolean): boolean =>
    pythonSwitch(extra, key, absent, PATH, warnings);
  return {
    engineProcess: engineProcess(extra),
    loadAsync: truth("load_async", true),
    lookupAsync: truth("lookup_async", false),
    enableLookup: truth("enable_lookup", true),
    saveDecodeCache: truth("save_decode_cache", false),
    enableCrossLayersBlocks: textSwitch(extra["enable_cross_layers_blocks"]),
    enableGroupSemantics: groupSwitch(extra),
    storeTp: storeTp(extra),
    lookupRpcPort: pythonText(
      extra["lookup_rpc_port"] ?? (Object.hasOwn(extra, "lookup_rpc_port") ? null : 0),
      `${PATH}lookup_rpc_port`,
    ),
    lookupRpcRole: lookupRpcRole(extra),
    cachePrefix: cachePrefix(extra, warnings),
    preferredSegment: preferredSegment(extra, environmentSegment),
    lookupTimeoutMs: whole(extra, "lookup_timeout_ms", 1000, 1),
    loadTimeoutMs: whole(extra, "load_timeout_ms", 30_000, 1),
    saveTimeoutMs: whole(extra, "save_timeout_ms", 60_000, 1),
    shutdownTimeoutMs: whole(extra, "shutdown_timeout_ms", 10_000, 1),
    engineStartTimeoutMs: whole(extra, "engine_start_timeout_ms", 10_000, 0),
    minLoadTokens: whole(extra, "min_load_tokens", 0, 0),
    poolVerify: poolVerify(extra["pool_verify"]),
    local: localPool(extra, truth("pool_verify_checksums", true)),
  };
}

/** Switches that read like true and are not. */
function misreadSwitches(extra: Readonly<Record<string, unknown>>): ConfigWarning[] {
  const isOn = {
    enable_cross_layers_blocks: textSwitch(extra["enable_cross_layers_blocks"]),
    enable_group_semantics: groupSwitch(extra),
  };
  const problem = "counts as false, as in vLLM: only true switches it on";
  const remedy = "Write true or false without quotes.";
  return Object.entries(isOn)
    .filter(([key, on]) => !on && !isPlainlyOff(extra[key]))
    .map(([key]) => ({ field: PATH + key, value: extra[key], problem, remedy }));
}

/** What a pool in this process's memory is told of groups for nothing. */
export function groupsWithoutMaster(extra: Readonly<Record<string, unknown>>): ConfigWarning[] {
  if (!groupSwitch(extra)) return [];
  const key = "enable_group_semantics";
  const problem = "has no effect with the local engine: it evicts each value alone";
  const remedy = "Nothing need be done; remove it to silence this.";
  return [{ field: PATH + key, value: extra[key], problem, remedy }];
}

/** What a preferred segment is told about when the pool has no owners: wherever it was given. */
export function segmentWithoutOwners(
  extra: Readonly<Record<string, unknown>>,
  environmentSegment: string | null,
): ConfigWarning[] {
  const given = extra["preferred_segment"] ?? null;
  if (given === null && environmentSegment === null) return [];
  const field = given === null ? "MOONCAKE_PREFERRED_SEGMENT" : `${PATH}preferred_segment`;
  return [
    {
      field,
      value: given ?? environmentSegment,
      problem: "has no effect with the local engine: its pool has no segments of owners",
      remedy: `Nothing need be done; ${given === null ? "unset" : "remove"} it to silence this.`,
    },
  ];
}

function engineProcess(extra: Readonly<Record<string, unknown>>): EngineProcess {
  const value = extra["engine_process"] ?? "in_process";
  const known = ENGINE_PROCESSES.find((each) => each === value);
  if (known !== undefined) return known;
  const remedy =
    'Write "child" for an engine whose crash this process survives, "in_process", or remove it.';
  throw invalid("engine_process", value, 'must be "in_process" or "child"', remedy);
}

/** A port alone is what a vLLM process is given, whose first worker always answers lookups. */
function lookupRpcRole(extra: Readonly<Record<string, unknown>>): LookupRpcRole | null {
  const value = extra["lookup_rpc_role"] ?? null;
  if (value === null) return Object.hasOwn(extra, "lookup_rpc_port") ? "server" : null;
  const role = LOOKUP_RPC_ROLES.find((each) => each === value);
  if (role !== undefined) return role;
  const remedy =
    'Write "server" to answer lookups of other processes, "client" to have yours answered by one, or remove it.';
  throw invalid("lookup_rpc_role", value, 'must be "server" or "client"', remedy);
}

/** vLLM reads this one as text: only `true` and "true" in any case switch it on. */
function textSwitch(value: unknown): boolean {
  return value === true || (typeof value === "string" && value.toLowerCase() === "true");
}

/** Likewise text, and here vLLM takes spaces off. */
function groupSwitch(extra: Readonly<Record<string, unknown>>): boolean {
  const value = extra["enable_group_semantics"];
  return textSwitch(typeof value === "string" ? value.trim() : value);
}

/** As they are written: what cannot be followed gives keys a namespace of their own, as in vLLM (keys/store-shape.ts). */
function storeTp(extra: Readonly<Record<string, unknown>>): StoreTpSettings | null {
  const lcm = extra["enable_store_tp_lcm"] === true;
  if (!lcm && (extra["store_tp_size"] ?? null) === null) return null;
  return Object.freeze({
    storeTpSize: extra["store_tp_size"],
    enableStoreTpLcm: extra["enable_store_tp_lcm"],
    prefillTpSizes: extra["prefill_tp_sizes"],
  });
}

function isPlainlyOff(value: unknown): boolean {
  return (
    (value ?? false) === false || (typeof value === "string" && value.toLowerCase() === "false")
  );
}

function cachePrefix(extra: Readonly<Record<string, unknown>>, warnings: ConfigWarning[]): string {
  if (!Object.hasOwn(extra, "cache_prefix")) return "";
  const value = extra["cache_prefix"];
  const text = pythonText(value, `${PATH}cache_prefix`);
  if (!text.isWellFormed()) {
    throw invalid(
      "cache_prefix",
      value,
      "holds half a surrogate pair, which UTF-8 cannot carry",
      "Correct the text.",
    );
  }
  if (typeof value !== "string") {
    warnings.push({
      field: `${PATH}cache_prefix`,
      value,
      problem: `this is no text; keys start with "${text}@", as in vLLM`,
      remedy: 'Write the prefix in quotes, or "" for none.',
    });
  }
  return text;
}

function preferredSegment(
  extra: Readonly<Record<string, unknown>>,
  environmentSegment: string | null,
): string | null {
  const value = extra["preferred_segment"];
  if (value === undefined || value === null) return environmentSegment;
  if (typeof value === "string" && value.trim() !== "") return value.trim();
  throw invalid(
    "preferred_segment",
    value,
    "must be a text that is not empty",
    'Write "host:port" or remove it.',
  );
}

function localPool(
  extra: Readonly<Record<string, unknown>>,
  verifyChecksums: boolean,
): LocalPoolConfig {
  const poolName = extra["pool_name"] ?? "default";
  if (typeof poolName !== "string" || poolName === "") {
    throw invalid(
      "pool_name",
      poolName,
      "must be a text that is not empty",
      "Give the pool a name, or remove it.",
    );
  }
  const bytesMax = parseSizeBytes(extra["pool_bytes_max"] ?? "1gb", `${PATH}pool_bytes_max`);
  if (bytesMax <= 0) {
    throw invalid(
      "pool_bytes_max",
      extra["pool_bytes_max"],
      "must be above 0",
      'Give for example "1gb".',
    );
  }
  return Object.freeze({
    poolName,
    bytesMax,
    ioThreads: whole(extra, "pool_io_threads", 2, 1, 64),
    verifyChecksums,
  });
}

function whole(
  extra: Readonly<Record<string, unknown>>,
  key: string,
  absent: number,
  least: number,
  most = 0x7fffffff,
): number {
  const value = Object.hasOwn(extra, key) ? extra[key] : absent;
  if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most)
    return value;
  const remedy = `Give a number without quotes, or remove it (default ${absent}).`;
  throw invalid(key, value, `must be a whole number from ${least} to ${most}`, remedy);
}

function invalid(key: string, value: unknown, problem: string, remedy: string): MooncakeKvError {
  const code =
    typeof value === "string" || typeof value === "number" ? "INVALID_VALUE" : "INVALID_TYPE";
  return new MooncakeKvError({ code, field: PATH + key, value, problem, remedy });
}
