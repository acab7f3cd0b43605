import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { basename } from "node:path";
import type { RunningMaster } from "../../../src/pool/master.ts";
import { type RunningOwner, startOwner } from "../../../src/pool/owner.ts";
import { freePort } from "../../../src/pool/ports.ts";
import type { StoreJson } from "../../../src/pool/pool.ts";
import { testWheel, startTestMaster } from "./mooncake-wheel.ts";

const MIB = 1024 ** 2;
const MOUNTED_WITHIN_MS = 40_000;
/** Less than Mooncake's 10 s, so that a dead owner's memory is not offered for so long; a busy machine may still miss some pings. */
export const CLIENT_TTL_SECONDS = 4;

/** A real master and a real owner whose parts may be killed and started again at the same place; stop it in the end. */
export class MortalPool {
  readonly store: StoreJson;
  readonly #mooncakeFolder: string;
  readonly #port: number;
  readonly #memoryBytes: number;
  #master: RunningMaster | null = null;
  #owner: RunningOwner | null = null;

  private constructor(mooncakeFolder: string, port: number, memoryBytes: number) {
    this.#mooncakeFolder = mooncakeFolder;
    this.#port = port;
    this.#memoryBytes = memoryBytes;
    this.store = {
      mode: "standalone-store",
      metadata_server: "P2PHANDSHAKE",
      master_server_address: `127.0.0.1:${port}`,
      global_segment_size: 0,
      local_buffer_size: 16 * MIB,
      protocol: "tcp",
      device_name: "",
      enable_offload: false,
    };
  }

  /** Nothing runs yet. `port`: of the master; absent: a free one. */
  static async prepare(port?: number, memoryBytes = 64 * MIB): Promise<MortalPool> {
    const { mooncakeFolder } = await testWheel();
    return new MortalPool(mooncakeFolder, port ?? (await freePort()), memoryBytes);
  }
  static async start(memoryBytes?: number): Promise<MortalPool> {
    const pool = await MortalPool.prepare(undefined, memoryBytes);
    await pool.startMaster();
    await pool.startOwner();
    return pool;
  }

  /** All keys that the master knows. */
  async keys(): Promise<string[]> {
    return (await this.#master?.admin.keys()) ?? [];
  }

  /** At the port of its predecessor. An owner that lives finds it by itself: that is waited for. */
  async startMaster(): Promise<void> {
    this.#master = await startTestMaster({
      mooncakeFolder: this.#mooncakeFolder,
      port: this.#port,
      flags: { client_ttl: String(CLIENT_TTL_SECONDS) },
    });
    if (this.#owner !== null) await this.#mounted(this.#master, this.#owner);
  }
  async killMaster(): Promise<void> {
    await killed(this.#master);
    this.#master = null;
  }

  /** A new one, at a port of its own: the master takes a while to forget the segment of the dead one. */
  async startOwner(): Promise<void> {
    if (this.#master === null) throw new Error("an owner needs a master");
    this.#owner = await startOwner({
      mooncakeFolder: this.#mooncakeFolder,
      master: this.#master,
      name: "owner",
      memoryBytes: this.#memoryBytes,
      protocol: "tcp",
      deviceName: "",
      ssdFolder: null,
      port: 0,
      logPath: null,
    });
  }
  async killOwner(): Promise<void> {
    await killed(this.#owner);
    this.#owner = null;
  }

  async stop(): Promise<void> {
    await this.#owner?.process.stop();
    await this.#master?.process.stop();
  }

  async #mounted({ admin }: RunningMaster, { segment }: RunningOwner): Promise<void> {
    const deadlineMs = performance.now() + MOUNTED_WITHIN_MS;
    while (
      !(await admin.segments()).some(({ name, status }) => name === segment && status === "OK")
    ) {
      if (performance.now() > deadlineMs) throw new Error(`${segment} does not come back`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

async function killed(part: RunningMaster | RunningOwner | null): Promise<void> {
  if (part === null) throw new Error("it does not run");
  part.process.kill("SIGKILL");
  await part.process.ended;
}

/** Processes of this one that run an engine. */
export function engineProcesses(): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && isOurEngine(pid));
}
function isOurEngine(pid: number): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    return (
      Number(/^PPid:\s*(\d+)$/m.exec(status)?.[1]) === process.pid &&
      basename(readlinkSync(`/proc/${pid}/exe`)) === "mooncake-kv-engine"
    );
  } catch {
    // It has ended since.
    return false;
  }
}
