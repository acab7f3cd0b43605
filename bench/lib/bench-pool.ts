/** A real pool on this machine for a benchmark: a master, and one owner over TCP on loopback. */
import { type RunningPool, startPool } from "../../src/pool/pool.ts";
import { requireWheel } from "../../src/store/mooncake/interpreter.ts";
import { packageRoot } from "../../src/worker-entry.ts";

const MIB = 2 ** 20;
export const POOL_BYTES = 1024 * MIB;

type Wheel = Awaited<ReturnType<typeof requireWheel>>;

/** The caller stops the pool. */
export async function startBenchPool(): Promise<{
  readonly wheel: Wheel;
  readonly pool: RunningPool;
}> {
  const wheel = await requireWheel({
    python: process.env["MOONCAKE_PYTHON"] ?? null,
    workingFolder: packageRoot(),
    searchPath: process.env["PATH"] ?? "",
  });
  const pool = await startPool({
    mooncakeFolder: wheel.mooncakeFolder,
    port: 0,
    owners: 1,
    memoryBytes: POOL_BYTES,
    localBufferBytes: 64 * MIB,
    protocol: "tcp",
    deviceName: "",
    ssdFolder: null,
    logFolder: null,
  });
  return { wheel, pool };
}
