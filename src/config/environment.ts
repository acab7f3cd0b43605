/**
 * The environment variables of the connector, read once at the edge into plain data. Names and defaults are vLLM's, so one
 * shell set-up serves both. The environment comes in as an argument; nothing below the edge looks at `process.env`.
 */
import { MooncakeKvError } from "../errors.ts";
import { LAYOUT_VARIABLE, readLayoutVariable, type VllmKvLayout } from "./kv-layout.ts";

export interface ConnectorEnvironment {
  /** MOONCAKE_CONFIG_PATH: the store's JSON file; null when unset or empty. */
  readonly configPath: string | null;
  /** PYTHONHASHSEED as text; null when unset. The empty text is a value, as in vLLM. */
  readonly hashSeed: string | null;
  /** VLLM_MOONCAKE_BOOTSTRAP_PORT: bootstrap port of the direct connector. */
  readonly bootstrapPort: number;
  /** MOONCAKE_PREFERRED_SEGMENT, `host:port`: this rank's replicas go to that owner segment. */
  readonly preferredSegment: string | null;
  /** MOONCAKE_REQUESTER_LOCAL_HOSTNAME: name under which the rank registers; null: VLLM_HOST_IP, or its address. */
  readonly requesterLocalHostname: string | null;
  /** VLLM_MOONCAKE_STORE_TIER_LOG: log per batch how much came from memory and from disk. */
  readonly storeTierLog: boolean;
  /** VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO: share of the owner's staging buffer that one read may fill, in (0, 1]. */
  readonly diskStagingUsableRatio: number;
  /** MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES, the owner's: its staging buffer; null when unset. */
  readonly offloadBufferBytes: number | null;
  /** VLLM_MOONCAKE_LOAD_RECV_THREADS, at least 1. */
  readonly loadReceiveThreads: number;
  /** VLLM_RPC_BASE_PATH: folder of the lookup socket; null: the temporary folder. */
  readonly rpcBasePath: string | null;
  /** VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES: KV events carry the low 64 bits of a hash; false: its whole digest. */
  readonly kvEventIntegerHashes: boolean;
  /** VLLM_KV_CACHE_LAYOUT, its aliases NHD and HND resolved; undefined: unset, so that the layout is found out. */
  readonly kvCacheLayout: VllmKvLayout | undefined;
  /** VLLM_HOST_IP: address of this machine for others, in the pool and in KV events; null: found out. */
  readonly hostAddress: string | null;
  /** MOONCAKE_PYTHON: the interpreter that has the Mooncake package; null: searched for. */
  readonly python: string | null;
  /** PATH: where programs are searched for. */
  readonly searchPath: string;
}

/** vLLM's default of VLLM_MOONCAKE_BOOTSTRAP_PORT. */
export const BOOTSTRAP_PORT = 8998;

/** Reads the variables; throws INVALID_VALUE naming the variable, its value and what it may be. */
export function readEnvironment(
  variables: Readonly<Record<string, string | undefined>>,
): ConnectorEnvironment {
  const text = (name: string): string | null => variables[name]?.trim() || null;
  return Object.freeze({
    configPath: variables["MOONCAKE_CONFIG_PATH"] || null,
    hashSeed: variables["PYTHONHASHSEED"] ?? null,
    bootstrapPort: integer(variables, "VLLM_MOONCAKE_BOOTSTRAP_PORT", BOOTSTRAP_PORT, 1, 65535),
    preferredSegment: text("MOONCAKE_PREFERRED_SEGMENT"),
    requesterLocalHostname: text("MOONCAKE_REQUESTER_LOCAL_HOSTNAME"),
    storeTierLog: ["true", "1"].includes(
      (variables["VLLM_MOONCAKE_STORE_TIER_LOG"] ?? "").toLowerCase(),
    ),
    diskStagingUsableRatio: ratio(variables, "VLLM_MOONCAKE_DISK_STAGING_USABLE_RATIO", 0.9),
    offloadBufferBytes:
      variables["MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES"] === undefined
        ? null
        : integer(
            variables,
            "MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES",
            0,
            1,
            Number.MAX_SAFE_INTEGER,
          ),
    // vLLM raises smaller numbers to 1 without a word; so must we, because the variable is shared.
    loadReceiveThreads: Math.max(
      1,
      integer(variables, "VLLM_MOONCAKE_LOAD_RECV_THREADS", 1, -1024, 1024),
    ),
    rpcBasePath: variables["VLLM_RPC_BASE_PATH"] || null,
    kvEventIntegerHashes:
      integer(variables, "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES", 1, -COUNT_MAX, COUNT_MAX) !== 0,
    kvCacheLayout: readLayoutVariable(variables[LAYOUT_VARIABLE]),
    hostAddress: variables["VLLM_HOST_IP"] || null,
    python: text("MOONCAKE_PYTHON"),
    searchPath: variables["PATH"] ?? "",
  });
}

const COUNT_MAX = 2 ** 31 - 1;

function integer(
  variables: Readonly<Record<string, string | undefined>>,
  name: string,
  absent: number,
  least: number,
  most: number,
): number {
  const text = variables[name];
  if (text === undefined) return absent;
  const value = /^\s*[+-]?\d+\s*$/.test(text) ? Number(text) : Number.NaN;
  if (value >= least && value <= most) return value;
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field: name,
    value: text,
    problem: `must be a whole number from ${least} to ${most}`,
    remedy: `Correct the environment variable or unset it (default ${absent}).`,
  });
}

function ratio(
  variables: Readonly<Record<string, string | undefined>>,
  name: string,
  absent: number,
): number {
  const text = variables[name];
  if (text === undefined) return absent;
  const decimal = /^\s*\+?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i;
  const value = decimal.test(text) ? Number(text) : Number.NaN;
  if (value > 0 && value <= 1) return value;
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field: name,
    value: text,
    problem: "must be a number above 0 and at most 1",
    remedy: `Correct the environment variable or unset it (default ${absent}).`,
  });
}
