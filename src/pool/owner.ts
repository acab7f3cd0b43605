import { makeFolder } from "../config/file-kinds.ts";
import { resolve } from "node:path";
import { MooncakeKvError } from "../errors.ts";
import { ManagedProcess } from "./managed-process.ts";
import { executable, LOOPBACK } from "./master.ts";
import type { RunningMaster } from "./master.ts";
import { canConnect, freePort } from "./ports.ts";

const START_TIMEOUT_MS = 60_000;
const TRIES = 3;
const CONNECT_TIMEOUT_MS = 1_000;

export interface OwnerOptions {
  readonly mooncakeFolder: string;
  readonly master: RunningMaster;
  /** For people: "owner 1". */
  readonly name: string;
  /** Memory that it gives to the pool. */
  readonly memoryBytes: number;
  readonly protocol: string;
  readonly deviceName: string;
  /** Folder of its SSD tier, made when absent; null: memory only. The master must offload too. */
  readonly ssdFolder: string | null;
  /** MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES, its staging buffer (Mooncake's own default is 1280 MiB). */
  readonly stagingBytes?: number | undefined;
  /** Segment port; 0: a free one. */
  readonly port: number;
  /** Further variables, over those of this process: MOONCAKE_BUCKET_EVICTION_POLICY, MOONCAKE_USE_URING, … */
  readonly environment?: Readonly<Record<string, string>>;
  readonly logPath: string | null;
  readonly startTimeoutMs?: number;
  /** An open file that it is to hold as long as it runs. */
  readonly heldDescriptor?: number | undefined;
}

export interface RunningOwner {
  readonly process: ManagedProcess;
  /** `host:port`: what MOONCAKE_PREFERRED_SEGMENT takes. */
  readonly segment: string;
  readonly ssdFolder: string | null;
}

/**
 * Starts a real mooncake_client that owns memory (and an SSD folder), and waits until the master lists its segment and its
 * own service answers. Its data ports listen on every address: the wheel has no setting for that.
 *
 * A failed try may leave a dead segment at the master for its client_ttl (10 s), so every try takes a new segment port.
 */
export async function startOwner(options: OwnerOptions): Promise<RunningOwner> {
  const ssdFolder = options.ssdFolder === null ? null : madeFolder(options.ssdFolder);
  for (let attempt = 1; ; attempt++) {
    const port = options.port === 0 ? await freePort() : options.port;
    const servicePort = await freePort();
    const segment = `${LOOPBACK}:${port}`;
    const process = await ManagedProcess.start({
      name: options.name,
      program: executable(options.mooncakeFolder, "mooncake_client"),
      args: [
        // With a port in it the segment's name is known before; otherwise the owner draws one.
        `--host=${segment}`,
        `--port=${servicePort}`,
        `--master_server_address=${LOOPBACK}:${options.master.port}`,
        "--metadata_server=P2PHANDSHAKE",
        `--protocol=${options.protocol}`,
        `--device_names=${options.deviceName}`,
        `--global_segment_size=${options.memoryBytes}`,
        `--enable_offload=${ssdFolder !== null}`,
      ],
      environment: {
        ...(ssdFolder === null ? {} : { MOONCAKE_OFFLOAD_FILE_STORAGE_PATH: ssdFolder }),
        ...(options.stagingBytes === undefined
          ? {}
          : { MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES: String(options.stagingBytes) }),
        ...options.environment,
      },
      logPath: options.logPath,
      heldDescriptor: options.heldDescriptor,
    });
    try {
      await process.waitUntilReady(
        async () =>
          (await canConnect(LOOPBACK, servicePort, CONNECT_TIMEOUT_MS)) &&
          (await isMounted(options.master, segment)),
        options.startTimeoutMs ?? START_TIMEOUT_MS,
        "Run `mooncake-kv doctor`.",
      );
      return { process, segment, ssdFolder };
    } catch (error) {
      await process.stop();
      if (options.port !== 0 || attempt === TRIES || !process.output.includes("already in use"))
        throw error;
    }
  }
}

async function isMounted(master: RunningMaster, name: string): Promise<boolean> {
  try {
    const segments = await master.admin.segments();
    return segments.some((segment) => segment.name === name && segment.status === "OK");
  } catch {
    return false;
  }
}

function madeFolder(folder: string): string {
  const path = resolve(folder);
  try {
    makeFolder(path);
  } catch (cause) {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "--ssd",
      value: folder,
      problem: `the folder cannot be made: ${cause instanceof Error ? cause.message : String(cause)}`,
      remedy: "Name a folder on the SSD that you may write to.",
      cause,
    });
  }
  return path;
}
