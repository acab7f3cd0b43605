import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import * as layout from "../../../src/blocks/layout.ts";
import { parseStoreConfig } from "../../../src/config/store-config.ts";
import { loadNative } from "../../../src/native/load.ts";
import type {
  ChildEngineOptions,
  EngineState,
  EngineStatus,
  MooncakeEngineOptions,
} from "../../../src/native/binding.ts";
import { engineOptionsWith } from "../../../src/store/mooncake/engine-options.ts";
import { CHECKSUM_MARK } from "../../../src/store/key-names.ts";
import { requireWheel } from "../../../src/store/mooncake/interpreter.ts";
import { Actor } from "../native-actor.mjs";
import type { Entry } from "../native-actor.mjs";
import { packageRoot } from "../../../src/worker-entry.ts";

const MIB = 1 << 20;

export const native = loadNative();
export const wheel = await requireWheel({
  python: process.env["MOONCAKE_PYTHON"] ?? null,
  workingFolder: packageRoot(),
  searchPath: process.env["PATH"] ?? "",
});

/** A member on loopback over TCP that gives no memory. */
export function engineOptions(
  master: string,
  changes: Partial<MooncakeEngineOptions> = {},
): MooncakeEngineOptions {
  const store = parseStoreConfig({
    mode: "standalone-store",
    metadata_server: "P2PHANDSHAKE",
    master_server_address: master,
    global_segment_size: 0,
    local_buffer_size: 16 * MIB,
    protocol: "tcp",
  });
  const options = engineOptionsWith(
    { path: wheel.path, sharedLibrary: wheel.sharedLibrary ?? "" },
    { store, requesterLocalHostname: "127.0.0.1" },
    { preferredSegment: null, enableGroupSemantics: false, storeTierLog: false },
  );
  return { ...options, existsThreads: 2, getThreads: 2, putThreads: 2, ...changes };
}

/** Segments of one block of a group. */
export interface Shape {
  readonly segments: number;
  readonly segmentBytes: number;
}

/**
 * A mooncake engine and an actor in front of it, over KV memory with one group a shape. Segments of a block lie apart, as those of
 * layers do. Keys are `prefix@hex`; the digest of hash row r is drawn from r.
 */
export class MooncakeWorld {
  readonly engineId: number;
  readonly actor: Actor;
  readonly #shapes: readonly Shape[];
  readonly #blockCount: number;
  readonly #memory: Uint8Array;
  readonly #groupStarts: number[] = [];
  readonly #keySpaceId: number;
  readonly #regionId: number;
  readonly #hashesSharedId: number;

  constructor(
    options: MooncakeEngineOptions | ChildEngineOptions,
    world: { shapes: readonly Shape[]; blockCount: number; prefix?: string },
  ) {
    const { shapes, blockCount, prefix = "model@tp_rank:0" } = world;
    this.#shapes = shapes;
    this.#blockCount = blockCount;
    let bytes = 0;
    for (const { segments, segmentBytes } of shapes) {
      this.#groupStarts.push(bytes);
      bytes += segments * segmentBytes * blockCount;
    }
    const pages = 40;
    const hashes = new Int32Array(new SharedArrayBuffer(pages * layout.HASH_PAGE_WORDS * 4));
    hashes.forEach((_, at) => (hashes[at] = Math.imul(at + 1, 0x9e3779b1)));
    this.#hashesSharedId = native.sharedRegister(new Uint8Array(hashes.buffer));
    this.#regionId = native.regionCreate(bytes);
    this.#memory = new Uint8Array(native.regionView(this.#regionId));
    this.#keySpaceId = native.keySpaceRegister({
      hashesSharedId: this.#hashesSharedId,
      hashBytes: 32,
      prefixes: [prefix],
      groups: shapes.map(({ segments, segmentBytes }, group) =>
        Array.from({ length: segments }, (_, index) => ({
          regionId: this.#regionId,
          offset: (this.#groupStarts[group] ?? 0) + index * segmentBytes * blockCount,
          strideBytes: segmentBytes,
          bytes: segmentBytes,
        })),
      ),
      blockCount,
    });
    this.engineId = native.engineOpen(options);
    native.engineUseKeySpace(this.engineId, this.#keySpaceId);
    this.actor = new Actor(
      native,
      layout,
      {
        hashes,
        hashesSharedId: this.#hashesSharedId,
        regionId: this.#regionId,
        keySpaceId: this.#keySpaceId,
        engineId: this.engineId,
        blockBytes: 0,
        blockCount,
      },
      { keysPerBatchMax: 2048 },
    );
  }

  get state(): EngineStatus {
    return native.engineState(this.engineId);
  }
  /** Rejects when the engine fails for good or the state does not come. */
  async until(wanted: EngineState, timeoutMs = 30_000): Promise<EngineStatus> {
    const deadlineMs = performance.now() + timeoutMs;
    for (;;) {
      const status = this.state;
      if (status.state === wanted) return status;
      if (status.state === "failed" || performance.now() > deadlineMs)
        throw new Error(`engine is ${JSON.stringify(status)}, not ${wanted}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  key(hashRow: number): string {
    return native.keyOf(this.#keySpaceId, 0, hashRow);
  }
  valueBytes(group: number): number {
    const { segments, segmentBytes } = this.#shape(group);
    return segments * segmentBytes;
  }
  /** Every byte of a block from a seed. */
  fill(group: number, block: number, seed: number): Uint8Array {
    const value = pattern(this.valueBytes(group), seed);
    this.#segments(group, block).forEach((segment, index) =>
      segment.set(value.subarray(index * segment.length, (index + 1) * segment.length)),
    );
    return value;
  }
  read(group: number, block: number): Uint8Array {
    return Buffer.concat(this.#segments(group, block));
  }

  exists(hashRows: readonly number[]): Promise<number[]> {
    return this.actor.run(
      layout.OPERATION_EXISTS,
      hashRows.map((row): Entry => [layout.NONE, row]),
    );
  }
  put(entries: readonly Entry[]): Promise<number[]> {
    return this.actor.run(layout.OPERATION_PUT, entries);
  }
  get(entries: readonly Entry[]): Promise<number[]> {
    return this.actor.run(layout.OPERATION_GET, entries);
  }

  /** Returns how many batches could not be waited for. */
  close(): number {
    this.actor.close();
    const left = native.engineClose(this.engineId, 15_000);
    native.keySpaceRelease(this.#keySpaceId);
    native.regionRelease(this.#regionId);
    native.sharedRelease(this.#hashesSharedId);
    return left;
  }

  #shape(group: number): Shape {
    const shape = this.#shapes[group];
    if (shape === undefined) throw new Error(`no group ${group}`);
    return shape;
  }
  #segments(group: number, block: number): Uint8Array[] {
    const { segments, segmentBytes } = this.#shape(group);
    return Array.from({ length: segments }, (_, index) => {
      const start =
        (this.#groupStarts[group] ?? 0) + (index * this.#blockCount + block) * segmentBytes;
      return this.#memory.subarray(start, start + segmentBytes);
    });
  }
}

export function pattern(bytes: number, seed: number): Uint8Array {
  const value = new Uint8Array(bytes);
  let state = Math.imul(seed + 1, 0x2545f491) | 1;
  for (let at = 0; at < bytes; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    value[at] = state >>> 24;
  }
  return value;
}

/** The wheel's own Python client in a process of its own; `segmentBytes` of memory for the pool. */
export class PythonClient {
  readonly #child;
  readonly #answers: AsyncIterator<string>;
  hostname = "";

  private constructor(master: string, segmentBytes: number) {
    const script = join(packageRoot(), "test/integration/support/mooncake-client.py");
    this.#child = spawn(wheel.path, [script, master, String(segmentBytes)], {
      stdio: ["pipe", "pipe", "ignore"],
    });
    this.#answers = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  static async start(master: string, segmentBytes = 0): Promise<PythonClient> {
    const client = new PythonClient(master, segmentBytes);
    const { code, hostname } = await client.#next<{ code: number; hostname: string }>();
    if (code !== 0) throw new Error(`the Python client answers ${code}`);
    client.hostname = hostname;
    return client;
  }

  /** Writes a value in segments of these sizes, which adds up to its length; `group`: the one that the store is told of. */
  put(
    key: string,
    value: Uint8Array,
    sizes: readonly number[],
    group: string | null = null,
  ): Promise<number> {
    return this.#ask({ do: "put", key, sizes, value: Buffer.from(value).toString("hex"), group });
  }
  async get(key: string, sizes: readonly number[]): Promise<{ result: number; value: Uint8Array }> {
    const { result, value } = await this.#ask<{ result: number; value: string }>({
      do: "get",
      key,
      sizes,
    });
    return { result, value: Buffer.from(value, "hex") };
  }
  exist(keys: readonly string[]): Promise<number[]> {
    return this.#ask({ do: "exist", keys });
  }
  /** By force. */
  remove(key: string): Promise<number> {
    return this.#ask({ do: "remove", key });
  }

  /** All keys of the pool, by force; returns how many. */
  removeAll(): Promise<number> {
    return this.#ask({ do: "removeAll" });
  }
  /** Values of `bytes` times one letter; returns the wheel's codes. */
  store(keys: readonly string[], bytes: number, letter: number): Promise<number[]> {
    return this.#ask({ do: "store", keys, bytes, letter });
  }
  /**
   * Other bytes of the same size in the place of values whose checksums are there. 0, or the wheel's code of removal or put; -1: no
   * checksum.
   */
  replace(keys: readonly string[], bytes: number, letter: number): Promise<number[]> {
    return this.#ask({ do: "replace", keys, bytes, letter, mark: CHECKSUM_MARK });
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }
  /** May be called again. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.kill("SIGKILL");
    await ended;
  }

  async #ask<Answer>(request: object): Promise<Answer> {
    this.#child.stdin.write(`${JSON.stringify(request)}\n`);
    return (await this.#next<{ answer: Answer }>()).answer;
  }
  async #next<Line>(): Promise<Line> {
    const { value, done } = await this.#answers.next();
    if (done === true) throw new Error("the Python client has ended");
    return JSON.parse(value) as Line;
  }
}
