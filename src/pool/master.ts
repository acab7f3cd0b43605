import { chmodSync } from "node:fs";
import { join } from "node:path";
import { fail } from "../errors.ts";
import { ManagedProcess } from "./managed-process.ts";
import { MasterAdmin } from "./master-admin.ts";
import { freePort, isPortFree } from "./ports.ts";

export const LOOPBACK = "127.0.0.1";
const START_TIMEOUT_MS = 30_000;
const TRIES = 3;

export interface MasterOptions {
  /** Folder of the wheel's `mooncake` package. */
  readonly mooncakeFolder: string;
  /** RPC port; 0: a free one. */
  readonly port: number;
  /** Port of health and metrics; 0: a free one. */
  readonly metricsPort: number;
  readonly enableOffload: boolean;
  /** Further flags of mooncake_master, as it names them: {default_kv_lease_ttl: "2000"}. */
  readonly flags?: Readonly<Record<string, string>>;
  readonly logPath: string | null;
  readonly startTimeoutMs?: number;
  /** An open file that it is to hold as long as it runs. */
  readonly heldDescriptor?: number | undefined;
}

export interface RunningMaster {
  readonly process: ManagedProcess;
  readonly port: number;
  readonly metricsPort: number;
  readonly admin: MasterAdmin;
}

/**
 * Starts a real mooncake_master on loopback and waits until it serves. Throws INVALID_VALUE when a wished port is taken,
 * CLOSED or TIMEOUT with its last output when it does not come up; then no process is left.
 */
export async function startMaster(options: MasterOptions): Promise<RunningMaster> {
  await requireFree(options.port, "--port");
  await requireFree(options.metricsPort, "--metrics-port");
  const wished = options.port !== 0 && options.metricsPort !== 0;
  for (let attempt = 1; ; attempt++) {
    const port = options.port === 0 ? await freePort() : options.port;
    const metricsPort = options.metricsPort === 0 ? await freePort() : options.metricsPort;
    const process = await ManagedProcess.start({
      name: "mooncake_master",
      program: executable(options.mooncakeFolder, "mooncake_master"),
      args: [
        // Without these two it listens on every address of the machine.
        `--rpc_address=${LOOPBACK}`,
        `--metrics_host=${LOOPBACK}`,
        `--rpc_port=${port}`,
        `--metrics_port=${metricsPort}`,
        `--enable_offload=${options.enableOffload}`,
        ...Object.entries(options.flags ?? {}).map(([name, value]) => `--${name}=${value}`),
      ],
      logPath: options.logPath,
      heldDescriptor: options.heldDescriptor,
    });
    const admin = new MasterAdmin({ host: LOOPBACK, port: metricsPort });
    try {
      await process.waitUntilReady(
        // The answer alone could come from another master that took the port in the meantime.
        async () => (await admin.isServing()) && process.end === null,
        options.startTimeoutMs ?? START_TIMEOUT_MS,
        "Run `mooncake-kv doctor`.",
      );
      return { process, port, metricsPort, admin };
    } catch (error) {
      await process.stop();
      if (wished || attempt === TRIES || !process.output.includes("already in use")) throw error;
    }
  }
}

/** Path of a program of the wheel. pip may leave it without its executable bit. */
export function executable(mooncakeFolder: string, name: string): string {
  const path = join(mooncakeFolder, name);
  try {
    chmodSync(path, 0o755);
  } catch {
    // Not ours to change, or absent: the start tells.
  }
  return path;
}

async function requireFree(port: number, option: string): Promise<void> {
  if (port === 0 || (await isPortFree(port, LOOPBACK))) return;
  fail(
    "INVALID_VALUE",
    option,
    port,
    `something listens on ${LOOPBACK}:${port} already`,
    `Stop it (ss -ltnp 'sport = :${port}' shows it), or give another port; ${option} 0 takes a free one.`,
  );
}
