import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { identify, isRunning, signalProcess, waitUntilGone } from "./process-identity.ts";
import type { ProcessIdentity } from "./process-identity.ts";
import type { RunningPool, StoreJson } from "./pool.ts";

/** What `pool stop` and `pool stats` need of a pool that another process keeps. */
export interface PoolRecord {
  readonly version: 1;
  /** Process that started the pool and stops it on SIGTERM. */
  readonly keeper: ProcessIdentity;
  readonly processes: readonly ProcessIdentity[];
  readonly port: number;
  readonly metricsPort: number;
  readonly store: StoreJson;
  /** File with the store's JSON: the value for MOONCAKE_CONFIG_PATH. */
  readonly storePath: string;
  /** Segments of the owners, `host:port`. */
  readonly segments: readonly string[];
  /** What the processes have written; removed with the pool. */
  readonly logFolder: string;
}

const STOP_TIMEOUT_MS = 20_000;
const KILL_TIMEOUT_MS = 5_000;

/** Folder of all recorded pools: MOONCAKE_KV_STATE, else the user's state folder. */
export function poolsFolder(environment: Readonly<Record<string, string | undefined>>): string {
  const state = environment["XDG_STATE_HOME"] || join(homedir(), ".local", "state");
  return environment["MOONCAKE_KV_STATE"] || join(state, "mooncake-kv", "pools");
}

/** Writes the pool's files into `folder`, which belongs to this pool alone; readers see all of a file or nothing. */
export function recordPool(folder: string, pool: RunningPool, logFolder: string): PoolRecord {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const storePath = join(folder, "store.json");
  const all = [pool.master.process, ...pool.owners.map((owner) => owner.process)];
  const identities = [{ name: "keeper", pid: process.pid }, ...all].map(({ name, pid }) =>
    identify(name, pid),
  );
  const [keeper, ...processes] = identities.filter((each) => each !== null);
  const record: PoolRecord = {
    version: 1,
    keeper: keeper ?? { name: "keeper", pid: process.pid, startTicks: 0 },
    processes,
    port: pool.master.port,
    metricsPort: pool.master.metricsPort,
    store: pool.store,
    storePath,
    segments: pool.owners.map((owner) => owner.segment),
    logFolder,
  };
  replaceFile(storePath, record.store);
  replaceFile(join(folder, "pool.json"), record);
  return record;
}

/** Recorded pools of which a process still runs; what is left of others is removed. */
export function livingPools(folder: string): PoolRecord[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    const record = readRecord(join(folder, name, "pool.json"));
    if (record === null) return [];
    if ([record.keeper, ...record.processes].some(isRunning)) return [record];
    rmSync(join(folder, name), { recursive: true, force: true });
    rmSync(record.logFolder, { recursive: true, force: true });
    return [];
  });
}

/** Ends a recorded pool: its keeper stops it in order; what then still runs is ended by pid. False when something lives on. */
export async function stopRecordedPool(record: PoolRecord): Promise<boolean> {
  signalProcess(record.keeper, "SIGTERM");
  await waitUntilGone([record.keeper], STOP_TIMEOUT_MS);
  const all = [record.keeper, ...record.processes];
  for (const each of record.processes) signalProcess(each, "SIGTERM");
  if (await waitUntilGone(all, KILL_TIMEOUT_MS)) return true;
  for (const each of all) signalProcess(each, "SIGKILL");
  return waitUntilGone(all, KILL_TIMEOUT_MS);
}

function readRecord(path: string): PoolRecord | null {
  try {
    const record = JSON.parse(readFileSync(path, "utf8")) as PoolRecord;
    return record.version === 1 ? record : null;
  } catch {
    return null;
  }
}

function replaceFile(path: string, content: unknown): void {
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  renameSync(draft, path);
}
