import { join } from "node:path";
import { brokenInvariant } from "../errors.ts";
import type { ProcessEnd } from "./managed-process.ts";
import { LOOPBACK, startMaster } from "./master.ts";
import type { RunningMaster } from "./master.ts";
import { startOwner } from "./owner.ts";
import type { RunningOwner } from "./owner.ts";

export interface PoolOptions {
  /** Folder of the wheel's `mooncake` package; `requireWheel` finds it. */
  readonly mooncakeFolder: string;
  /** Port of the master; 0: a free one. */
  readonly port: number;
  readonly metricsPort?: number;
  /** Outside owners; 0: the members themselves give memory (embedded mode). */
  readonly owners: number;
  /** Memory of each owner, or of each member in embedded mode. */
  readonly memoryBytes: number;
  /** Private buffer of each member. */
  readonly localBufferBytes: number;
  readonly protocol: string;
  readonly deviceName: string;
  /** Folder of the owners' SSD tier, one sub-folder each when there are several; null: no disk. */
  readonly ssdFolder: string | null;
  readonly stagingBytes?: number | undefined;
  readonly masterFlags?: Readonly<Record<string, string>>;
  readonly ownerEnvironment?: Readonly<Record<string, string>>;
  /** Folder for what the processes write; null: kept in memory only. */
  readonly logFolder: string | null;
  /** An open file that all its processes are to hold as long as they run. */
  readonly heldDescriptor?: number | undefined;
  readonly onProgress?: (text: string) => void;
}

/** The store's JSON, with vLLM's names: what MOONCAKE_CONFIG_PATH points to. */
export interface StoreJson {
  readonly mode: "embedded" | "standalone-store";
  readonly metadata_server: string;
  readonly master_server_address: string;
  readonly global_segment_size: number;
  readonly local_buffer_size: number;
  readonly protocol: string;
  readonly device_name: string;
  readonly enable_offload: boolean;
}

/** A development pool whose processes belong to this one. */
export interface RunningPool {
  readonly store: StoreJson;
  readonly master: RunningMaster;
  readonly owners: readonly RunningOwner[];
  /** Resolves with the first process that ended without being asked to. */
  readonly failed: Promise<{
    readonly name: string;
    readonly end: ProcessEnd;
    readonly tail: string;
  }>;
  /** Owners first, so that they say goodbye to a living master. May be called again. */
  stop(): Promise<void>;
}

/**
 * Starts a real master, and owners when asked, on loopback; resolves when all are healthy. What is started is stopped again
 * when a later part does not come up. Errors as of `startMaster` and `startOwner`.
 */
export async function startPool(options: PoolOptions): Promise<RunningPool> {
  const show = options.onProgress ?? (() => undefined);
  const log = (name: string): string | null =>
    options.logFolder === null ? null : join(options.logFolder, `${name}.log`);
  show("starting the master");
  const master = await startMaster({
    mooncakeFolder: options.mooncakeFolder,
    port: options.port,
    metricsPort: options.metricsPort ?? 0,
    enableOffload: options.ssdFolder !== null,
    flags: options.masterFlags ?? {},
    logPath: log("master"),
    heldDescriptor: options.heldDescriptor,
  });
  const owners: RunningOwner[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(owners.map((owner) => owner.process.stop()));
    await master.process.stop();
  };
  try {
    for (let index = 1; index <= options.owners; index++) {
      const name = options.owners === 1 ? "owner" : `owner-${index}`;
      show(`starting ${name}`);
      owners.push(
        await startOwner({
          mooncakeFolder: options.mooncakeFolder,
          master,
          name,
          memoryBytes: options.memoryBytes,
          protocol: options.protocol,
          deviceName: options.deviceName,
          ssdFolder: ownerFolder(options, name),
          stagingBytes: options.stagingBytes,
          environment: options.ownerEnvironment ?? {},
          port: 0,
          logPath: log(name),
          heldDescriptor: options.heldDescriptor,
        }),
      );
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    store: storeJson(options, master),
    master,
    owners,
    failed: firstEnd(master, owners),
    stop,
  };
}

function ownerFolder(options: PoolOptions, name: string): string | null {
  if (options.ssdFolder === null) return null;
  return options.owners === 1 ? options.ssdFolder : join(options.ssdFolder, name);
}

function storeJson(options: PoolOptions, master: RunningMaster): StoreJson {
  const outside = options.owners > 0;
  return {
    mode: outside ? "standalone-store" : "embedded",
    metadata_server: "P2PHANDSHAKE",
    master_server_address: `${LOOPBACK}:${master.port}`,
    global_segment_size: outside ? 0 : options.memoryBytes,
    local_buffer_size: options.localBufferBytes,
    protocol: options.protocol,
    device_name: options.deviceName,
    enable_offload: options.ssdFolder !== null,
  };
}

function firstEnd(master: RunningMaster, owners: readonly RunningOwner[]): RunningPool["failed"] {
  const processes = [master.process, ...owners.map((owner) => owner.process)];
  return Promise.race(
    processes.map(async (process) => {
      const end = await process.ended;
      return { name: process.name, end, tail: process.output.tail(20) };
    }),
  ).then((first) => first ?? brokenInvariant("a pool without processes"));
}
