/**
 * Goal: a serving loop's own KV memory takes part in a real pool, with the engine in this process and in one of its own: what it
 * saves, members with memory of the runtime load, and the other way round, byte for byte.
 * Method: two whole runtimes on one pool, one of them over SharedArrayBuffers of the test, whose bytes are compared.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { UserKvMemory, UserKvStorages } from "../../src/actors/runtime/kv-memory.ts";
import { storageBytes } from "../../src/actors/runtime/kv-memory.ts";
import { normalizeKvCacheConfig } from "../../src/config/kv-cache-normalize.ts";
import { kvTensors } from "../../src/keys/kv-tensors.ts";
import { rankSegments } from "../../src/keys/segments.ts";
import type { StorageSegment } from "../../src/keys/segments.ts";
import type { RunningPool } from "../../src/pool/pool.ts";
import { BLOCK_COUNT, KV_CACHE, tokens } from "./support/embedded.ts";
import type { EmbeddedLoop } from "./support/embedded.ts";
import { startTestPool } from "./support/mooncake-wheel.ts";
import { writeStore } from "./support/real-pool.ts";
import { attachToPool, endRequest, loadInto, saveFrom } from "./support/real-pool-loop.ts";

const TEST_TIMEOUT_MS = 60_000;
const NORMALIZED = normalizeKvCacheConfig(KV_CACHE);
const SIZES = storageBytes(kvTensors(NORMALIZED));
const SEGMENTS = rankSegments(kvTensors(NORMALIZED).flat(), BLOCK_COUNT);

let folder: string;
let pool: RunningPool;
let loops: EmbeddedLoop[] = [];
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "real-pool-own-memory-"));
  pool = await startTestPool();
});
afterEach(async () => {
  for (const loop of loops) {
    expect(loop.pinned()).toEqual([]);
    expect(await loop.attached.stop()).toBe(0);
  }
  loops = [];
});
afterAll(async () => {
  await pool?.stop();
  rmSync(folder, { recursive: true });
});

/** A member's memory, and in the order of a value the places of its parts. */
interface KvBytes {
  readonly storages: readonly Uint8Array[];
  readonly segments: readonly StorageSegment[];
}
function valueOf({ storages, segments }: KvBytes, block: number): Buffer {
  const parts = segments.map(({ storage, offset, strideBytes, bytes }) => {
    const from = offset + block * strideBytes;
    return storages[storage]!.subarray(from, from + bytes);
  });
  return Buffer.concat(parts);
}
const shared = (bytes: number): Uint8Array => new Uint8Array(new SharedArrayBuffer(bytes));

/** Memory of the test as allocations, laid out as vLLM's are by default. */
function asStorages(): { kvMemory: UserKvStorages; own: KvBytes } {
  const storages = SIZES.map(shared);
  return { kvMemory: { kind: "storages", storages }, own: { storages, segments: SEGMENTS } };
}
/** The same in one piece, one allocation after the other. */
function asOnePiece(): { kvMemory: UserKvMemory; own: KvBytes } {
  const memory = shared(SIZES.reduce((sum, bytes) => sum + bytes, 0));
  const startOf = (storage: number): number =>
    SIZES.slice(0, storage).reduce((sum, bytes) => sum + bytes, 0);
  const segments = SEGMENTS.map(({ storage, offset, strideBytes, bytes }) => {
    return { storage: 0, offset: startOf(storage) + offset, strideBytes, bytes };
  });
  const rules = segments.map(({ offset, strideBytes, bytes }) => ({ offset, strideBytes, bytes }));
  return {
    kvMemory: { kind: "user", memory, segments: [rules] },
    own: { storages: [memory], segments },
  };
}
/** Memory of the runtime, which has a block in one piece. */
function managedOf({ attached }: EmbeddedLoop): KvBytes {
  const memory = new Uint8Array(attached.kvMemory ?? new ArrayBuffer(0));
  const bytes = memory.length / BLOCK_COUNT;
  const segments = [{ storage: 0, offset: 0, strideBytes: bytes, bytes }];
  return { storages: [memory], segments };
}

describe.each(["in_process", "child"])("engine_process %s", (engineProcess) => {
  test.each([
    ["storages", asStorages],
    ["one piece", asOnePiece],
  ])(
    "%s",
    async (name, memoryOfTest) => {
      const store = writeStore(folder, pool.store, `${engineProcess}-${name}`);
      const extra = { engine_process: engineProcess, cache_prefix: `${engineProcess}-${name}` };
      const { kvMemory, own } = memoryOfTest();
      const user = await attachToPool(store, { kvMemory }, extra);
      const managed = await attachToPool(store, {}, extra);
      loops = [user, managed];
      expect(user.attached.kvStorages).toEqual([]);
      const theirs = managedOf(managed);
      const directions = [
        { from: user, to: managed, fromMemory: own, toMemory: theirs, seed: 1 },
        { from: managed, to: user, fromMemory: theirs, toMemory: own, seed: 2 },
      ];
      for (const { from, to, fromMemory, toMemory, seed } of directions) {
        for (const storage of fromMemory.storages)
          for (let at = 0; at < storage.length; at++) storage[at] = (at * 31 + (at >> 8)) * seed;
        for (const storage of toMemory.storages) storage.fill(0);
        const prompt = tokens(60, seed);
        saveFrom(from, `save ${seed}`, prompt, [5, 9, 2, 7]);
        expect(loadInto(to, `load ${seed}`, prompt, [1, 3, 8, 4])).toEqual({ found: 48, kept: 48 });
        for (const [index, block] of [1, 3, 8].entries())
          expect(valueOf(toMemory, block).equals(valueOf(fromMemory, [5, 9, 2][index] ?? 0))).toBe(
            true,
          );
        expect(valueOf(toMemory, 4).every((byte) => byte === 0)).toBe(true);
        endRequest(to, `load ${seed}`);
      }
    },
    TEST_TIMEOUT_MS,
  );
});
