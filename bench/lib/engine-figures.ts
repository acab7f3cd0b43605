import {
  channelWords,
  HASH_PAGE_WORDS,
  HASH_STRIDE_WORDS,
  HASHES_PER_PAGE,
  NONE,
  OPERATION_EXISTS,
  OPERATION_GET,
  OPERATION_PUT,
  PAGE_HEADER_WORDS,
} from "../../src/blocks/layout.ts";
import type { NativeBinding } from "../../src/native/binding.ts";
import type { EngineChannel } from "../../src/store/engine.ts";
import { attachNativeChannel } from "../../src/store/native-channel.ts";
import { median, type Report } from "./report.ts";

/** Far more than any cache holds, in blocks as large as those of real models. */
const BLOCK_BYTES = 256 * 1024;
const BLOCKS = 512;
const POOL_BYTES = 3 * (BLOCK_BYTES * BLOCKS);
const KEYS_PER_BATCH = 64;
const BATCHES = BLOCKS / KEYS_PER_BATCH;
const SHAPE = { batchSlots: BATCHES, keysPerBatchMax: KEYS_PER_BATCH };
const ROUNDS = 15;
const WARM_UP_ROUNDS = 3;

/**
 * Every block put into the local engine, taken back, and copied by `Uint8Array.set` from the same memory: in turns, one I/O
 * thread against this one. The time of put and get is the caller's: from the first submit to the last completion.
 */
export async function measureEngine(native: NativeBinding, report: Report): Promise<void> {
  const world = openWorld(native);
  const memory = new Uint8Array(native.regionView(world.regionId));
  for (let at = 0; at < memory.length; at += 4) memory[at] = at >> 10;
  const copy = Buffer.alloc(memory.length, 1);
  const plain = Buffer.from(memory.buffer, memory.byteOffset, memory.byteLength);
  const times = { put: [], get: [], copy: [], exists: [] } as Record<string, number[]>;
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
    native.engineRemovePrefix(world.engineId, "");
    const put = await world.run(OPERATION_PUT, 0, BLOCK_BYTES);
    const get = await world.run(OPERATION_GET, 0, BLOCK_BYTES);
    const exists = await world.run(OPERATION_EXISTS, NONE, 1);
    const start = native.monotonicNanoseconds();
    for (let block = 0; block < BLOCKS; block++)
      plain.copy(copy, block * BLOCK_BYTES, block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
    const copied = native.monotonicNanoseconds() - start;
    if (round < WARM_UP_ROUNDS) continue;
    for (const [name, time] of Object.entries({ put, get, exists, copy: copied }))
      times[name]!.push(time);
  }
  world.close();
  const rate = (name: string): number => (BLOCKS * BLOCK_BYTES) / median(times[name]!);
  report.figure("put into the local engine, one I/O thread", rate("put"), "GB/s");
  report.figure("get from the local engine, one I/O thread", rate("get"), "GB/s");
  report.figure("plain copy (Buffer.copy)", rate("copy"), "GB/s");
  report.figure("exists, a key of batches of 64", median(times["exists"]!) / BLOCKS, "ns");
  report.ratio("put-over-plain-copy", rate("put") / rate("copy"), "least", 0.8);
  report.ratio("get-over-plain-copy", rate("get") / rate("copy"), "least", 0.8);
}

interface World {
  readonly regionId: number;
  readonly engineId: number;
  /** All blocks through one operation; nanoseconds. Throws when a key's result is not `expected`. */
  run(operation: number, block: number, expected: number): Promise<number>;
  close(): void;
}

function openWorld(native: NativeBinding): World {
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
  const poolName = `bench-${process.pid}`;
  const engineId = native.engineOpen({
    kind: "local",
    poolName,
    bytesMax: POOL_BYTES,
    ioThreads: 1,
    verifyChecksums: false,
  });
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
