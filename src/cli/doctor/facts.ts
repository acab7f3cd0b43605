import type { LoadedStoreConfig } from "../../config/store-config.ts";
import type { MooncakeKvError } from "../../errors.ts";
import type { EngineKind } from "../../config/connector-config.ts";
import type { PoolSegment } from "../../pool/master-admin.ts";
import type { BrokenInterpreter, Interpreter } from "../../store/mooncake/interpreter.ts";

export interface DoctorQuestion {
  readonly variables: Readonly<Record<string, string | undefined>>;
  readonly workingFolder: string;
  /** As of --kv-transfer-config; undefined: not given. */
  readonly kvTransferConfig: string | undefined;
  /** null: what the settings say. */
  readonly engine: EngineKind | null;
  readonly hashAlgorithm: string;
  /** `host:port` of the master's metrics; null: known or 9003. */
  readonly metrics: string | null;
}

/** All that the checks look at, gathered before: the checks themselves touch nothing. */
export interface DoctorFacts {
  readonly engine: EngineKind;
  /** What is wrong with the connector's settings or an environment variable; null: nothing. */
  readonly settingsProblem: Problem | null;
  readonly machine: MachineFacts;
  readonly package: PackageFacts;
  readonly interpreter: Interpreter | BrokenInterpreter | null;
  /** null: no wheel to look at. */
  readonly wheelLibraries: WheelLibraries | null;
  readonly rdma: readonly RdmaDevice[];
  readonly store: StoreFacts;
  readonly ports: readonly PortFacts[];
  readonly hash: HashFacts;
}

export interface Problem {
  readonly text: string;
  readonly remedy: string;
}

export interface MachineFacts {
  readonly nodeVersion: string;
  readonly debian: boolean;
  readonly root: boolean;
  /** Soft limit; null: unlimited. */
  readonly lockedMemoryBytesMax: number | null;
  /** Soft limit (`ulimit -n`); null: unlimited. */
  readonly openFilesMax: number | null;
  readonly hugepagesTotal: number;
  readonly hugepagesFree: number;
  readonly hugepageBytes: number;
  /** MC_STORE_USE_HUGEPAGE is set. */
  readonly hugepagesWanted: boolean;
}

export interface PackageFacts {
  readonly folder: string;
  /** What the loader says; null: the addon works. */
  readonly addonProblem: Problem | null;
  readonly optional: readonly OptionalPackage[];
}

export interface OptionalPackage {
  readonly name: string;
  readonly purpose: string;
  /** Version that package.json names. */
  readonly wanted: string;
  readonly installed: boolean;
}

export interface WheelLibraries {
  /** Shared libraries that the loader does not find, and versions that are too old, as ldd names them. */
  readonly missing: readonly string[];
  /** ldd could not be run, so nothing is known. */
  readonly unknown: string | null;
}

export interface RdmaDevice {
  readonly name: string;
  /** Of its ports: "ACTIVE", "DOWN", … */
  readonly portStates: readonly string[];
}

export interface StoreFacts {
  /** MOONCAKE_CONFIG_PATH; null: unset. */
  readonly configPath: string | null;
  /** What was read there. */
  readonly loaded: LoadedStoreConfig | null;
  readonly problem: Problem | null;
  readonly preferredSegment: string | null;
  /** null: no address to try. */
  readonly masterReachable: boolean | null;
  /** Members as the master's metrics port tells them; null: it does not answer. */
  readonly segments: readonly PoolSegment[] | null;
  readonly metricsAddress: string | null;
}

export interface PortFacts {
  readonly port: number;
  readonly purpose: string;
  readonly free: boolean;
}

export interface HashFacts {
  /** As --prefix-caching-hash-algo. */
  readonly algorithm: string;
  /** PYTHONHASHSEED; null: unset. */
  readonly seed: string | null;
}

/** An error's text and its remedy apart. */
export function problemOf(error: MooncakeKvError): Problem {
  const text = error.message.replace(error.remedy, "").replace(/\.\s*$/, "");
  return { text, remedy: error.remedy };
}
