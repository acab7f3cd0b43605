/**
 * The store's JSON file named by MOONCAKE_CONFIG_PATH. Parsing equals vLLM's `MooncakeStoreConfig` (unknown fields and an
 * empty object are accepted); what vLLM lets pass but cannot work is rejected or warned of in `checkStoreConfig`, which runs
 * when the engine is set up.
 */
import { readFileSync, statSync } from "node:fs";
import { MooncakeKvError } from "../errors.ts";
import { asRecord, parseJsonRecord, pythonTruth } from "./python-value.ts";
import { parseSizeBytes } from "./sizes.ts";
import { unknownKeyWarnings } from "./warnings.ts";
import type { ConfigWarning } from "./warnings.ts";

export type StoreMode = "embedded" | "standalone-store";

export interface StoreConfig {
  readonly metadataServer: string;
  /** `host:port` of the master. */
  readonly masterServerAddress: string;
  /** As written; `checkStoreConfig` accepts rdma and tcp. */
  readonly protocol: string;
  readonly deviceName: string;
  /** embedded: each rank gives memory to the pool. standalone-store: an outside owner holds it all. */
  readonly mode: StoreMode;
  /** Memory given to the pool, per rank: above 0 when embedded, 0 when standalone-store. */
  readonly globalSegmentBytes: number;
  /** Private buffer of this node's own operations, per rank; above 0. */
  readonly localBufferBytes: number;
  readonly enableOffload: boolean;
  readonly tenantId: string;
}

const DEFAULT_BYTES = 4 * 1024 ** 3;
const FILE_BYTES_MAX = 1024 * 1024;
const DEFAULT_TENANT = "default";
const MODES: readonly string[] = ["embedded", "standalone-store"];
const PROTOCOLS: readonly string[] = ["rdma", "tcp"];
export const STORE_CONFIG_FIELDS: readonly string[] = [
  "metadata_server",
  "master_server_address",
  "protocol",
  "device_name",
  "mode",
  "global_segment_size",
  "local_buffer_size",
  "enable_offload",
  "tenant_id",
];

/** Parses what the file holds. Throws INVALID_VALUE or INVALID_TYPE where vLLM raises ValueError or TypeError. */
export function parseStoreConfig(file: unknown): StoreConfig {
  const record = asRecord(file, "store configuration");
  const mode = record["mode"] ?? (Object.hasOwn(record, "mode") ? null : "embedded");
  const globalSegmentBytes = sizeOr(record, "global_segment_size");
  const localBufferBytes = sizeOr(record, "local_buffer_size");
  const tenantId = parseTenantId(record["tenant_id"]);
  if (!isMode(mode)) {
    throw invalid("mode", mode, "is not a mode", `Use one of ${MODES.join(", ")}.`);
  }
  if (localBufferBytes <= 0) {
    throw invalid(
      "local_buffer_size",
      record["local_buffer_size"],
      "must be above 0",
      'Give for example "4gb".',
    );
  }
  if (mode === "embedded" && globalSegmentBytes <= 0) {
    throw invalid(
      "global_segment_size",
      record["global_segment_size"],
      "must be above 0 in embedded mode, where each rank gives memory to the pool",
      'Give for example "4gb", or set "mode" to "standalone-store".',
    );
  }
  if (mode === "standalone-store" && globalSegmentBytes !== 0) {
    throw invalid(
      "global_segment_size",
      record["global_segment_size"] ?? DEFAULT_BYTES,
      "must be 0 in standalone-store mode, where an outside owner holds the memory",
      'Set "global_segment_size" to 0.',
    );
  }
  return Object.freeze({
    metadataServer: textOr(record, "metadata_server", ""),
    masterServerAddress: textOr(record, "master_server_address", ""),
    protocol: textOr(record, "protocol", "rdma"),
    deviceName: textOr(record, "device_name", ""),
    mode,
    globalSegmentBytes,
    localBufferBytes,
    enableOffload: pythonTruth(record["enable_offload"]),
    tenantId,
  });
}

/**
 * What must hold before an engine is set up. Throws INVALID_VALUE or MISSING; returns the warnings.
 *
 * `file` is the parsed JSON, `config` what `parseStoreConfig` made of it.
 */
export function checkStoreConfig(
  file: unknown,
  config: StoreConfig,
  preferredSegment: string | null,
): ConfigWarning[] {
  if (config.masterServerAddress.trim() === "") {
    throw new MooncakeKvError({
      code: "MISSING",
      field: "master_server_address",
      value: config.masterServerAddress,
      problem: "is empty",
      remedy: 'Give the master\'s "host:port", for example "127.0.0.1:50051".',
    });
  }
  if (!PROTOCOLS.includes(config.protocol)) {
    throw invalid(
      "protocol",
      config.protocol,
      "is not a known protocol",
      `Use one of ${PROTOCOLS.join(", ")}.`,
    );
  }
  const record = asRecord(file, "store configuration");
  const warnings = unknownKeyWarnings(record, STORE_CONFIG_FIELDS, "");
  const warn = (field: string, value: unknown, problem: string, remedy: string): void => {
    warnings.push({ field, value, problem, remedy });
  };
  if (config.metadataServer.trim() === "")
    warn(
      "metadata_server",
      config.metadataServer,
      "is empty, and the transfer engine finds no other node without it",
      'Give "P2PHANDSHAKE", unless a metadata service runs.',
    );
  const offload = record["enable_offload"];
  if (typeof offload === "string" && offload.trim().toLowerCase() === "false") {
    warn(
      "enable_offload",
      offload,
      "the text counts as true, as in vLLM",
      "Write false without quotes to switch it off.",
    );
  }
  if (config.mode === "embedded" && config.enableOffload && preferredSegment === null) {
    warn(
      "enable_offload",
      true,
      "embedded mode with offload but without a preferred segment: no owner with a disk tier takes the replicas",
      "Set MOONCAKE_PREFERRED_SEGMENT to the owner's host:port, or use standalone-store mode.",
    );
  }
  if (config.mode === "embedded" && preferredSegment !== null) {
    warn(
      "MOONCAKE_PREFERRED_SEGMENT",
      preferredSegment,
      "the rank's own segment stays idle, because replicas go to the preferred segment",
      "Use standalone-store mode with global_segment_size 0, or unset the preferred segment.",
    );
  }
  if (config.mode === "standalone-store" && !config.enableOffload) {
    warn(
      "enable_offload",
      false,
      "standalone-store mode without offload: reads are not budgeted against the owner's staging buffer",
      "Set it to true when master and owner run with --enable_offload=true.",
    );
  }
  return warnings;
}

export interface LoadedStoreConfig {
  readonly config: StoreConfig;
  readonly warnings: readonly ConfigWarning[];
}

/** Reads, parses and checks the file. Throws MISSING when the path is unset or the file is absent. Blocks on the disk. */
export function loadStoreConfig(
  path: string | null,
  preferredSegment: string | null,
): LoadedStoreConfig {
  if (path === null) {
    throw new MooncakeKvError({
      code: "MISSING",
      field: "MOONCAKE_CONFIG_PATH",
      problem: "is not set, and the mooncake engine needs its store configuration",
      remedy: "Set it to the path of the store's JSON file.",
    });
  }
  const file = readStoreFile(path);
  const config = parseStoreConfig(file);
  return { config, warnings: checkStoreConfig(file, config, preferredSegment) };
}

/** The file as it is written. Throws MISSING when it cannot be read, INVALID_VALUE when it is no JSON object. Blocks on the disk. */
export function readStoreFile(path: string): Readonly<Record<string, unknown>> {
  let text: string;
  try {
    checkStoreFile(path);
    text = readFileSync(path, "utf8");
  } catch (cause) {
    if (cause instanceof MooncakeKvError) throw cause;
    throw new MooncakeKvError({
      code: "MISSING",
      field: "MOONCAKE_CONFIG_PATH",
      value: path,
      problem: `the file cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`,
      remedy: "Create the file or correct the path.",
      cause,
    });
  }
  return parseJsonRecord(text, path);
}

/** A pipe without a writer would be waited for for ever, a device never ends. */
function checkStoreFile(path: string): void {
  const found = statSync(path);
  const problem = !found.isFile()
    ? "is no regular file"
    : found.size > FILE_BYTES_MAX
      ? `has ${found.size} bytes, more than any store configuration`
      : null;
  if (problem === null) return;
  throw invalid("MOONCAKE_CONFIG_PATH", path, problem, "Name the store's JSON file.");
}

function isMode(value: unknown): value is StoreMode {
  return typeof value === "string" && MODES.includes(value);
}

function sizeOr(record: Readonly<Record<string, unknown>>, field: string): number {
  return Object.hasOwn(record, field) ? parseSizeBytes(record[field], field) : DEFAULT_BYTES;
}

function textOr(record: Readonly<Record<string, unknown>>, field: string, absent: string): string {
  if (!Object.hasOwn(record, field)) return absent;
  const value = record[field];
  if (typeof value === "string") return value;
  throw new MooncakeKvError({
    code: "INVALID_TYPE",
    field,
    value,
    problem: "must be a text",
    remedy: "Put the value in quotes.",
  });
}

function parseTenantId(value: unknown): string {
  if (value === undefined || value === null) return DEFAULT_TENANT;
  if (typeof value === "string") return value.trim() || DEFAULT_TENANT;
  throw new MooncakeKvError({
    code: "INVALID_TYPE",
    field: "tenant_id",
    value,
    problem: "must be a text or null",
    remedy: "Put the value in quotes, or remove it.",
  });
}

function invalid(field: string, value: unknown, problem: string, remedy: string): MooncakeKvError {
  return new MooncakeKvError({ code: "INVALID_VALUE", field, value, problem, remedy });
}
