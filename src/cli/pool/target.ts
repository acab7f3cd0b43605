import { readEnvironment } from "../../config/environment.ts";
import { parseStoreConfig, loadStoreConfig } from "../../config/store-config.ts";
import type { StoreConfig } from "../../config/store-config.ts";
import { fail } from "../../errors.ts";
import { requireWheel } from "../../store/mooncake/interpreter.ts";
import { MasterAdmin } from "../../pool/master-admin.ts";
import { parseHostPort } from "../../pool/ports.ts";
import type { HostPort } from "../../pool/ports.ts";
import { poolsFolder, readPools } from "../../pool/state.ts";
import type { PoolRecord } from "../../pool/state.ts";
import type { StoreClientOptions } from "../../pool/store-client.ts";

export interface TargetFlags {
  readonly config?: string;
  readonly metrics?: string;
}

/** The pool that a command speaks to. */
export interface PoolTarget {
  readonly store: StoreConfig;
  readonly admin: MasterAdmin;
  /** Finds the wheel; throws MISSING when there is none. */
  client(): Promise<StoreClientOptions>;
}

/** Metrics port of a master that was started without saying one. */
const METRICS_PORT = 9003;

/** The pool by the rule: --config, else MOONCAKE_CONFIG_PATH, else the one pool that was started on this machine. */
export function choosePool(flags: TargetFlags): PoolTarget {
  const environment = readEnvironment(process.env);
  const path = flags.config ?? environment.configPath;
  const pools = livingPools();
  const store =
    path === null ? onlyPool(pools) : loadStoreConfig(path, environment.preferredSegment).config;
  const known = pools.find(
    (pool) => pool.store.master_server_address === store.masterServerAddress,
  );
  const metrics = given(flags.metrics) ?? {
    host: hostOf(store),
    port: known?.metricsPort ?? METRICS_PORT,
  };
  return {
    store,
    admin: new MasterAdmin(metrics),
    client: async () => {
      const wheel = await requireWheel({
        python: environment.python,
        workingFolder: process.cwd(),
        searchPath: process.env["PATH"] ?? "",
      });
      return { python: wheel.path, store, localHostname: environment.requesterLocalHostname };
    },
  };
}

/** Of this machine. What lies beside them and cannot be read is named on standard error, and left alone. */
export function livingPools(): readonly PoolRecord[] {
  const { living, broken } = readPools(poolsFolder(process.env));
  for (const { path, problem } of broken)
    process.stderr.write(
      `mooncake-kv: ${path} is left out: ${problem}. Remove it yourself when no pool uses it.\n`,
    );
  return living;
}

function onlyPool(pools: readonly PoolRecord[]): StoreConfig {
  const [first] = pools;
  if (pools.length === 1 && first !== undefined) return parseStoreConfig(first.store);
  const problem =
    pools.length === 0
      ? "no pool is named, and none was started on this machine"
      : `no pool is named, and ${pools.length} run on this machine`;
  const paths = pools.map(({ storePath }) => storePath).join(" or ");
  const remedy = `Give --config FILE with the store's JSON${paths === "" ? "" : ` (${paths})`}, or set MOONCAKE_CONFIG_PATH.`;
  return fail("MISSING", "--config", undefined, problem, remedy);
}

function hostOf(store: StoreConfig): string {
  const address = parseHostPort(store.masterServerAddress);
  if (address !== null) return address.host;
  return fail(
    "INVALID_VALUE",
    "master_server_address",
    store.masterServerAddress,
    'is not "host:port"',
    'Give for example "127.0.0.1:50051".',
  );
}

function given(text: string | undefined): HostPort | null {
  if (text === undefined) return null;
  const address = parseHostPort(text);
  if (address !== null) return address;
  return fail(
    "INVALID_VALUE",
    "--metrics",
    text,
    "is not host:port",
    "Give for example --metrics 127.0.0.1:9003.",
  );
}
