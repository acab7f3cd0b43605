import { execFile } from "node:child_process";
import { requireWheel } from "../../../src/store/mooncake/interpreter.ts";
import { startMaster } from "../../../src/pool/master.ts";
import type { MasterOptions, RunningMaster } from "../../../src/pool/master.ts";
import { startPool } from "../../../src/pool/pool.ts";
import type { PoolOptions, RunningPool, StoreJson } from "../../../src/pool/pool.ts";
import { packageRoot } from "../../../src/worker-entry.ts";

/** The wheel in the checkout's .venv, which the setup makes. */
export function testWheel(): ReturnType<typeof requireWheel> {
  return requireWheel({ python: null, workingFolder: packageRoot(), searchPath: "" });
}

const MIB = 1024 ** 2;

/** A real master alone, on free ports unless told otherwise; stop its process in the end. */
export function startTestMaster(
  options: Pick<MasterOptions, "mooncakeFolder"> & Partial<MasterOptions>,
): Promise<RunningMaster> {
  return startMaster({
    port: 0,
    metricsPort: 0,
    enableOffload: false,
    logPath: null,
    ...options,
  });
}

/** A small real pool on free ports; stop it in `afterAll`. */
export async function startTestPool(options: Partial<PoolOptions> = {}): Promise<RunningPool> {
  const { mooncakeFolder } = await testWheel();
  return startPool({
    mooncakeFolder,
    port: 0,
    owners: 1,
    memoryBytes: 64 * MIB,
    localBufferBytes: 16 * MIB,
    protocol: "tcp",
    deviceName: "",
    ssdFolder: null,
    // The default of 1280 MiB is too much for several owners at a time.
    stagingBytes: 64 * MIB,
    logFolder: null,
    ...options,
  });
}

const CLIENT = `
import json, sys
from mooncake.store import MooncakeDistributedStore
request = json.load(sys.stdin)
store = MooncakeDistributedStore()
def joined(code):
    if code != 0: sys.exit("setup: %d" % code)
joined(store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", request["master"]))
`;

/**
 * Runs Python statements with the wheel's own client (`store`) as member of the pool; `request` holds what is given. Resolves
 * with what the statements assign to `answer`.
 */
export async function pythonClient(
  store: StoreJson,
  statements: string,
  given: Readonly<Record<string, unknown>> = {},
): Promise<unknown> {
  const wheel = await testWheel();
  const end = 'print("answer " + json.dumps(answer), flush=True)\nstore.close()\n';
  return new Promise((resolve, reject) => {
    const child = execFile(
      wheel.path,
      ["-c", `${CLIENT}\n${statements}\n${end}`],
      { timeout: 50_000, killSignal: "SIGKILL" },
      (error, stdout, stderr) => {
        const line = stdout.split("\n").find((each) => each.startsWith("answer "));
        if (error === null && line !== undefined) resolve(JSON.parse(line.slice(7)));
        else
          reject(
            new Error(
              `the wheel's client failed: ${error?.message ?? "it answered nothing"}\n${stderr.slice(-2000)}`,
            ),
          );
      },
    );
    child.stdin?.end(JSON.stringify({ ...given, master: store.master_server_address }));
  });
}

/** Puts texts through the wheel's client; throws when one is refused. */
export async function putTexts(
  store: StoreJson,
  texts: Readonly<Record<string, string>>,
): Promise<void> {
  const statements =
    'answer = [store.put(key, text.encode()) for key, text in request["texts"].items()]';
  const codes = await pythonClient(store, statements, { texts });
  if (!Array.isArray(codes) || codes.some((code) => code !== 0))
    throw new Error(`put failed: ${JSON.stringify(codes)}`);
}
