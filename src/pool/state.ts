import * as fs from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { holdsLock, removePoolFolder, stateOfPoolFolder } from "./pool-folder.ts";
import { identify, isRunning, signalProcess } from "./process-identity.ts";
import type { RunningPool, StoreJson } from "./pool.ts";

const VERSION = 2;
const RECORD_NAME = "pool.json";
const RECORD_BYTES_MAX = 1024 * 1024;

const processShape = z.object({
  name: z.string().max(64),
  pid: z
    .int()
    .min(1)
    .max(2 ** 31),
  startTicks: z.number(),
});
const portShape = z.int().min(1).max(65_535);
const recordShape = z.object({
  version: z.literal(VERSION),
  /** Process that started the pool and stops it on SIGTERM. */
  keeper: processShape,
  processes: z.array(processShape).max(1024),
  port: portShape,
  metricsPort: portShape,
  store: z.object({
    mode: z.enum(["embedded", "standalone-store"]),
    metadata_server: z.string(),
    master_server_address: z.string(),
    global_segment_size: z.number(),
    local_buffer_size: z.number(),
    protocol: z.string(),
    device_name: z.string(),
    enable_offload: z.boolean(),
  }) satisfies z.ZodType<StoreJson>,
  /** Segments of the owners, `host:port`. */
  segments: z.array(z.string()).max(1024),
});

/** What `pool stop` and `pool stats` need of a pool that another process keeps. */
export type PoolRecord = z.infer<typeof recordShape> & {
  readonly folder: string;
  /** File with the store's JSON: the value for MOONCAKE_CONFIG_PATH. */
  readonly storePath: string;
  /** What the processes have written; removed with the pool. */
  readonly logFolder: string;
};

/** A folder among the pools that says nothing: it is left alone. */
export interface BrokenPool {
  readonly path: string;
  readonly problem: string;
}

const STOP_TIMEOUT_MS = 20_000;
const KILL_TIMEOUT_MS = 5_000;
const POLL_MS = 50;

/** Folder of all recorded pools: MOONCAKE_KV_STATE, else the user's state folder. */
export function poolsFolder(environment: Readonly<Record<string, string | undefined>>): string {
  const state = environment["XDG_STATE_HOME"] || join(homedir(), ".local", "state");
  return environment["MOONCAKE_KV_STATE"] || join(state, "mooncake-kv", "pools");
}

/** Writes the pool's files into its folder; readers see all of a file or nothing. */
export function recordPool(folder: string, pool: RunningPool): PoolRecord {
  const all = [pool.master.process, ...pool.owners.map((owner) => owner.process)];
  const identities = [{ name: "keeper", pid: process.pid }, ...all].map(({ name, pid }) =>
    identify(name, pid),
  );
  const [keeper, ...processes] = identities.filter((each) => each !== null);
  const record = {
    version: VERSION,
    keeper: keeper ?? { name: "keeper", pid: process.pid, startTicks: 0 },
    processes,
    port: pool.master.port,
    metricsPort: pool.master.metricsPort,
    store: pool.store,
    segments: pool.owners.map((owner) => owner.segment),
  } as const;
  replaceFile(join(folder, "store.json"), record.store);
  replaceFile(join(folder, RECORD_NAME), record);
  return { ...record, ...pathsOf(folder) };
}

/**
 * Pools whose lock is held, and what cannot be read. Removes what is left of pools whose processes have all ended; nothing that a
 * file names is touched.
 */
export function readPools(pools: string): { living: PoolRecord[]; broken: BrokenPool[] } {
  const living: PoolRecord[] = [];
  const broken: BrokenPool[] = [];
  for (const path of foldersIn(pools)) {
    const read = readPool(path);
    if (read === null) continue;
    if ("problem" in read) broken.push({ path, problem: read.problem });
    else living.push(read);
  }
  return { living, broken };
}

/** null: not there any more, or not ready yet. */
function readPool(path: string): PoolRecord | { readonly problem: string } | null {
  try {
    const state = stateOfPoolFolder(path);
    if (state.kind === "foreign") return { problem: state.problem };
    if (state.kind === "free") {
      removePoolFolder(path);
      return fs.existsSync(path)
        ? { problem: "its pool has ended, but other files lie in it" }
        : null;
    }
    const record = readRecord(join(path, RECORD_NAME));
    return record === null || "problem" in record ? record : { ...record, ...pathsOf(path) };
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

/** "stopped"; "lives": even after SIGKILL; "out of sight": none of its processes can be seen from here, and it lives. */
export type PoolEnd = "stopped" | "lives" | "out of sight";

/**
 * Ends a recorded pool: its keeper stops it in order; what then still runs is ended by pid. Only processes that hold the pool's lock
 * get a signal, whatever the record names.
 */
export async function stopRecordedPool(record: PoolRecord): Promise<PoolEnd> {
  const { folder } = record;
  const all = [record.keeper, ...record.processes];
  const seen = all.filter((each) => isRunning(each) && holdsLock(folder, each.pid));
  const signal = (name: NodeJS.Signals): void => {
    for (const each of seen) if (each !== record.keeper) signalProcess(each, name);
  };
  if (seen.includes(record.keeper)) {
    signalProcess(record.keeper, "SIGTERM");
    await waitUntil(() => !isRunning(record.keeper), STOP_TIMEOUT_MS);
  }
  const gone = (): boolean => !seen.some(isRunning) && !isHeld(folder);
  if (gone()) return "stopped";
  if (seen.length === 0) return "out of sight";
  signal("SIGTERM");
  if (await waitUntil(gone, KILL_TIMEOUT_MS)) return "stopped";
  if (seen.includes(record.keeper)) signalProcess(record.keeper, "SIGKILL");
  signal("SIGKILL");
  return (await waitUntil(gone, KILL_TIMEOUT_MS)) ? "stopped" : "lives";
}

function isHeld(folder: string): boolean {
  try {
    return stateOfPoolFolder(folder).kind === "held";
  } catch (error) {
    if (codeOf(error) === "ENOENT") return false;
    throw error;
  }
}

async function waitUntil(condition: () => boolean, timeoutMs: number): Promise<boolean> {
  const deadlineMs = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > deadlineMs) return false;
    await sleep(POLL_MS);
  }
  return true;
}

function foldersIn(pools: string): string[] {
  try {
    // Hidden ones are not ready yet.
    return fs
      .readdirSync(pools)
      .filter((name) => !name.startsWith("."))
      .map((name) => join(pools, name));
  } catch {
    return [];
  }
}

type Recorded = z.infer<typeof recordShape>;

function readRecord(path: string): Recorded | { readonly problem: string } | null {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
  const file = fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const { size } = fs.fstatSync(file);
    if (!fs.fstatSync(file).isFile() || size > RECORD_BYTES_MAX)
      return { problem: `its ${RECORD_NAME} is no record of a pool` };
    const read = recordShape.safeParse(JSON.parse(fs.readFileSync(file, "utf8")));
    if (read.success) return read.data;
    const [issue] = read.error.issues;
    return {
      problem: `its ${RECORD_NAME} is not one of this version: ${issue?.path.join(".") ?? ""}: ${issue?.message ?? ""}`,
    };
  } catch (error) {
    return {
      problem: `its ${RECORD_NAME} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    };
  } finally {
    fs.closeSync(file);
  }
}

function pathsOf(folder: string): Pick<PoolRecord, "folder" | "storePath" | "logFolder"> {
  return { folder, storePath: join(folder, "store.json"), logFolder: join(folder, "logs") };
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && "code" in error ? error.code : undefined;
}

function replaceFile(path: string, content: unknown): void {
  const draft = `${path}.draft`;
  fs.writeFileSync(draft, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 });
  fs.renameSync(draft, path);
}
