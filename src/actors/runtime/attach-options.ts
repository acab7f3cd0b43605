/** What `attachConnector` is given, checked as a whole before anything is opened: a program without types makes mistakes too. */
import { JOBS_PER_REQUEST_SLOT } from "../../blocks/capacities.ts";
import type { TableDimensions } from "../../blocks/tables.ts";
import type { ConnectorConfig } from "../../config/connector-config.ts";
import { readEnvironment } from "../../config/environment.ts";
import type { ConnectorEnvironment } from "../../config/environment.ts";
import { isRecord } from "../../config/json-text.ts";
import { schedulerBlockSize } from "../../config/kv-cache-config.ts";
import type { KvCacheConfig, KvLayout } from "../../config/kv-cache-config.ts";
import { OPEN_FILES_REMEDY, OPEN_FILES_RUNTIME, openFilesMax } from "../../config/open-files.ts";
import { refuseUnknownKeys } from "../../config/kv-checks.ts";
import { normalizeKvCacheConfig } from "../../config/kv-cache-normalize.ts";
import { connectorNames, resolveKvLayout, type KvLayoutChoice } from "../../config/kv-layout.ts";
import { tableDimensions } from "../../config/table-dimensions.ts";
import { parseTransferConfig } from "../../config/transfer-config.ts";
import type { ConfigWarning } from "../../config/warnings.ts";
import { fail } from "../../errors.ts";
import { keyNamespaceOf } from "../../keys/pool-keys.ts";
import { selectStoreShape } from "../../keys/store-shape.ts";
import type { AttachOptions } from "./attach.ts";
import { checkKvMemory } from "./check-kv-memory.ts";
import type { KvMemory } from "./kv-memory.ts";

export interface ResolvedAttach {
  readonly environment: ConnectorEnvironment;
  readonly connector: ConnectorConfig;
  readonly warnings: readonly ConfigWarning[];
  readonly kvCache: KvCacheConfig;
  readonly layout: KvLayoutChoice;
  readonly kvMemory: KvMemory;
  readonly dimensions: TableDimensions;
  readonly logLevel: string;
}

const OPTION_KEYS = [
  "kvCache",
  "kvTransferConfig",
  "blockPool",
  "kvMemory",
  "kvEventsConfig",
  "requestSlots",
  "tokensPerRequestMax",
  "environment",
  "log",
  "logLevel",
] satisfies (keyof AttachOptions)[];
const LOG_LEVELS: readonly string[] = ["trace", "debug", "info", "warn", "error", "silent"];
const LOG_METHODS: readonly string[] = ["debug", "info", "warn", "error"];
const COUNT_MAX = 1 << 24;

/**
 * Throws MooncakeKvError (MISSING, INVALID_TYPE, INVALID_VALUE, UNSUPPORTED) naming the option, its value and the remedy. The
 * engine is chosen last, so that its absence hides no other mistake.
 */
export function resolveAttach(options: AttachOptions): ResolvedAttach {
  checkOpenFiles();
  checkObject(options, "options", "Call attachConnector({ kvCache, blockPool, ... }).");
  refuseUnknownKeys(options, OPTION_KEYS, "attachConnector.");
  checkMethods(options.blockPool, "blockPool", ["pin", "unpin"]);
  if (options.log !== undefined) checkMethods(options.log, "log", LOG_METHODS);
  const logLevel = options.logLevel ?? "info";
  if (!LOG_LEVELS.includes(logLevel)) {
    const remedy = `Use one of ${LOG_LEVELS.join(", ")}.`;
    fail("INVALID_VALUE", "logLevel", logLevel, "is no log level", remedy);
  }
  const variables = options.environment ?? process.env;
  checkObject(variables, "environment", "Give an object of names and texts, or leave it out.");
  const given = normalizeKvCacheConfig(options.kvCache);
  const environment = readEnvironment(variables);
  const stated = options.kvCache.layout ?? undefined;
  const layout = resolveKvLayout({
    stated,
    requested: environment.kvCacheLayout,
    connectors: connectorNames(options.kvTransferConfig),
    model: given,
  });
  const kvCache = Object.freeze({ ...given, layout: layout.layout });
  if (options.kvMemory !== undefined) checkKvMemory(options.kvMemory, kvCache);
  const dimensions = embeddedDimensions(options, kvCache);
  const { config: connector, warnings } = parseTransferConfig(
    options.kvTransferConfig,
    environment,
  );
  const kvMemory: KvMemory = options.kvMemory ?? {
    kind: "managed",
    layout: memoryLayout(stated, kvCache, connector),
  };
  const told = [...warnings, ...layout.warnings];
  return {
    environment,
    connector,
    warnings: told,
    kvCache,
    layout,
    kvMemory,
    dimensions,
    logLevel,
  };
}

/**
 * Memory of the runtime's own has the block outermost, unless kvCache states a layout, or values are cut by head. Values have the
 * same bytes either way: only the axes behind the block count. Names of keys follow the layout that was resolved.
 */
function memoryLayout(
  stated: KvLayout | undefined,
  kvCache: KvCacheConfig,
  connector: ConnectorConfig,
): KvLayout {
  const { layout } = kvCache;
  if (stated !== undefined && !connector.enableCrossLayersBlocks) return layout;
  if (selectStoreShape(kvCache, keyNamespaceOf(connector).storeTp ?? null).tpSize !== null)
    return layout;
  return layout === "LBNHC" || layout === "BLNHC" ? "BLNHC" : "BLHNC";
}

function embeddedDimensions(options: AttachOptions, kvCache: KvCacheConfig): TableDimensions {
  const requestSlots = options.requestSlots ?? 1024;
  const blockTokens = (kvCache.blockCount - 1) * schedulerBlockSize(kvCache);
  const tokensPerRequestMax = options.tokensPerRequestMax ?? blockTokens;
  for (const [field, value] of Object.entries({ requestSlots, tokensPerRequestMax })) {
    if (Number.isInteger(value) && value >= 1 && value <= COUNT_MAX) continue;
    const problem = `must be a whole number from 1 to ${COUNT_MAX}`;
    const remedy = `Give a ${field} within these bounds, or leave it out.`;
    fail("INVALID_VALUE", field, value, problem, remedy);
  }
  return tableDimensions(kvCache, {
    requestSlots,
    jobSlots: JOBS_PER_REQUEST_SLOT * requestSlots,
    tokensPerRequestMax,
    // Waiting requests hold rows too: twice what the blocks hold, and at least one request of full length.
    tokensMax: Math.max(2 * blockTokens, tokensPerRequestMax),
    stepSequencesMax: 0,
  });
}

/** Throws CAPACITY when threads, engine and sockets of a runtime would not find enough open files. */
function checkOpenFiles(): void {
  const most = openFilesMax();
  if (most === null || most >= OPEN_FILES_RUNTIME) return;
  const problem = `at least ${OPEN_FILES_RUNTIME} files must be allowed to be open at a time`;
  fail("CAPACITY", "open files", most, problem, `Raise the limit: ${OPEN_FILES_REMEDY}`);
}

function checkObject(value: unknown, field: string, remedy: string): void {
  if (isRecord(value)) return;
  const code = value === undefined ? "MISSING" : "INVALID_TYPE";
  fail(code, field, value, "must be an object", remedy);
}

function checkMethods(value: unknown, field: string, methods: readonly string[]): void {
  const remedy = `Give an object with the methods ${methods.join(", ")}.`;
  const holder: unknown = typeof value === "function" ? undefined : value;
  checkObject(holder, field, remedy);
  for (const method of methods) {
    const given = (value as Record<string, unknown>)[method];
    if (typeof given !== "function")
      fail("INVALID_TYPE", `${field}.${method}`, given, "must be a function", remedy);
  }
}
