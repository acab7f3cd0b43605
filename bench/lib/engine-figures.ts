import {
  channelWords,
  HASH_PAGE_WORDS,
  HASH_STRIDE_WORDS,
  HASHES_PER_PAGE,
  NONE,
  OPERATION_EXISTS,
  OPERATION_GET,
  OPERATION_PUT,
  OPERATION_REMOVE,
  PAGE_HEADER_WORDS,
} from "../../src/blocks/layout.ts";
import type { EngineOptions, LocalEngineOptions, NativeBinding } from "../../src/native/binding.ts";
import type { EngineChannel } from "../../src/store/engine.ts";
import { attachNativeChannel } from "../../src/store/native-channel.ts";
import { median, type Report } from "./report.ts";

/** Far more than any cache holds, in blocks as large as those of real models. */
export const BLOCK_BYTES = 256 * 1024;
export const BLOCKS = 512;
const POOL_BYTES = 3 * (BLOCK_BYTES * BLOCKS);
export const KEYS_PER_BATCH = 64;
const BATCHES = BLOCKS / KEYS_PER_BATCH;
const SHAPE = { batchSlots: BATCHES, keysPerBatchMax: KEYS_PER_BATCH };
const ROUNDS = 15;
const WARM_UP_ROUNDS = 3;
const TIMED = ["fresh", "put", "get", "exists", "out", "in"] as const;
type Timed = (typeof TIMED)[number];

/**
 * Every block put into the local engine, taken back, and copied by `Buffer.copy` between the same memory and memory of this
 * thread: in turns, one I/O thread against this one. The time of put and get is the caller's, from the first submit to the
 * last completion. A put's rival reads the KV memory, a get's rival writes it.
 */
export async function measureEngine(native: NativeBinding, report: Report): Promise<void> {
  const world = openWorld(native, localPool());
  const memory = new Uint8Array(native.regionView(world.regionId));
  for (let at = 0; at < memory.length; at++) memory[at] = at >> 10;
  const blocks = Buffer.from(memory.buffer, memory.byteOffset, memory.byteLength);
  // Memory of the same kind, so that the copies differ in nothing but who copies.
  const ownRegionId = native.regionCreate(memory.length);
  const own = Buffer.from(native.regionView(ownRegionId));
  own.fill(1);
  const times: Record<Timed, number[]> = {
    fresh: [],
    put: [],
    get: [],
    exists: [],
    out: [],
    in: [],
  };
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
    const taken = {
      fresh: await world.run(OPERATION_PUT, 0, BLOCK_BYTES),
      // Gives the values' memory back to the pool, which keeps it for the next put.
      removed: await world.run(OPERATION_REMOVE, NONE, 0),
      put: await world.run(OPERATION_PUT, 0, BLOCK_BYTES),
      out: copyBlocks(native, blocks, own),
      get: await world.run(OPERATION_GET, 0, BLOCK_BYTES),
      in: copyBlocks(native, own, blocks),
      exists: await world.run(OPERATION_EXISTS, NONE, 1),
    };
    // Gives the memory back to the system too.
    native.engineRemovePrefix(world.engineId, "");
    if (round < WARM_UP_ROUNDS) continue;
    for (const name of TIMED) times[name].push(taken[name]);
  }
  world.close();
  native.regionRelease(ownRegionId);
  const rate = (name: Timed): number => (BLOCKS * BLOCK_BYTES) / median(times[name]);
  report.figure("put, one I/O thread, into memory that the pool has", rate("put"), "GB/s");
  report.figure("put, one I/O thread, into fresh memory", rate("fresh"), "GB/s");
  report.figure("plain copy (Buffer.copy) out of KV memory", rate("out"), "GB/s");
  report.figure("get, one I/O thread", rate("get"), "GB/s");
  report.figure("plain copy (Buffer.copy) into KV memory", rate("in"), "GB/s");
  report.figure("exists, a key, in batches of 64", median(times.exists) / BLOCKS, "ns");
  report.ratio("put-over-plain-copy", rate("put") / rate("out"), "least", 0.8);
  report.ratio("get-over-plain-copy", rate("get") / rate("in"), "least", 0.8);
}

function copyBlocks(native: NativeBinding, from: Buffer, to: Buffer): number {
  const start = native.monotonicNanoseconds();
  for (let at = 0; at < from.length; at += BLOCK_BYTES) from.copy(to, at, at, at + BLOCK_BYTES);
  return native.monotonicNanoseconds() - start;
}

export interface World {
  readonly regionId: number;
  readonly engineId: number;
  /** All blocks through one operation; nanoseconds. Throws when a key's result is not `expected`. */
  run(operation: number, block: number, expected: number): Promise<number>;
  close(): void;
}

/** The local engine with one I/O thread and room for all blocks. */
export function localPool(): LocalEngineOptions {
  const poolName = `bench-${process.pid}`;
  return { kind: "local", poolName, bytesMax: POOL_BYTES, ioThreads: 1, verifyChecksums: false };
}

/** KV memory, an engine and a channel to it. The engine must be open before the first `run`. */
export function openWorld(native: NativeBinding, engine: EngineOptions): World {
  const hashesSharedId = native.sharedRegister(new Uint8Array(hashRows().buffer));
  const regionId = native.regionCreate(BLOCK_BYTES * BLOCKS);
  const segment = { regionId, offset: 0, strideBytes: BLOCK_BYTES, bytes: BLOCK_BYTES };
  const keySpaceId = native.keySpaceRegister({
    hashesSharedId,
    hashBytes: 32,
    prefixes: ["bench@tp_rank:0"],
    groups: [[segment]],
    blockCount: BLOCKS,
  });
  const engineId = native.engineOpen(engine);
  const words = new Int32Array(new SharedArrayBuffer(channelWords(SHAPE) * 4));
  const sharedId = native.sharedRegister(new Uint8Array(words.buffer));
  const wakeId = native.wakeReserve();
  let woken = (): void => undefined;
  native.wakeOpen(wakeId, () => woken(), true);
  const channelId = native.channelOpen({ engineId, sharedId, wordOffset: 0, ...SHAPE, wakeId });
  const channel = attachNativeChannel({
    words,
    shape: SHAPE,
    binding: native,
    channelId,
    epoch: 1,
  });
  const nextWake = (): Promise<void> => new Promise((resolve) => (woken = resolve));
  return {
    regionId,
    engineId,
    run: async (operation, block, expected) => {
      const start = native.monotonicNanoseconds();
      for (let batch = 0; batch < BATCHES; batch++)
        submit(channel, operation, keySpaceId, batch, block);
      for (let done = 0; done < BATCHES;) {
        const wake = nextWake();
        const slot = channel.poll();
        if (slot < 0) {
          await wake;
          continue;
        }
        check(channel, slot, expected);
        channel.release(slot);
        done++;
      }
      return native.monotonicNanoseconds() - start;
    },
    close: () => {
      native.channelClose(channelId);
      native.wakeClose(wakeId);
      native.engineClose(engineId, 10_000);
      native.keySpaceRelease(keySpaceId);
      for (const id of [sharedId, hashesSharedId]) native.sharedRelease(id);
      native.regionRelease(regionId);
    },
  };
}

function submit(
  channel: EngineChannel,
  operation: number,
  keySpaceId: number,
  batch: number,
  block: number,
): void {
  const slot = channel.acquire();
  const entries = channel.entries(slot);
  for (let index = 0; index < KEYS_PER_BATCH; index++) {
    const row = batch * KEYS_PER_BATCH + index;
    entries.set([0, 0, block === NONE ? NONE : row, row], index * 4);
  }
  channel.submit(slot, operation, keySpaceId, KEYS_PER_BATCH, batch, 0);
}

function check(channel: EngineChannel, slot: number, expected: number): void {
  const results = channel.results(slot);
  for (let index = 0; index < KEYS_PER_BATCH; index++) {
    if (results[index] !== expected)
      throw new Error(`operation ${channel.operation(slot)} answers ${results[index]}`);
  }
}

/** Every row another digest. */
function hashRows(): Int32Array {
  const pages = Math.ceil(BLOCKS / HASHES_PER_PAGE);
  const words = new Int32Array(new SharedArrayBuffer(pages * HASH_PAGE_WORDS * 4));
  for (let row = 0; row < BLOCKS; row++) {
    const page = Math.floor(row / HASHES_PER_PAGE);
    const index = row % HASHES_PER_PAGE;
    const at = page * HASH_PAGE_WORDS + PAGE_HEADER_WORDS + index * HASH_STRIDE_WORDS;
    words.fill(1 + row, at, at + HASH_STRIDE_WORDS);
  }
  return words;
}
