// Processes of the native death test, chosen by argv[2]. Each ends with exit code 0 and prints "survived", or it crashed.
import { once } from "node:events";
import { Worker } from "node:worker_threads";

import * as layout from "../../dist/blocks/layout.js";
import { loadNative } from "../../dist/native/load.js";
import { Actor, openWorld } from "./native-actor.mjs";

const native = loadNative();
const start = (workerData) =>
  new Worker(new URL("./native-worker.mjs", import.meta.url), { workerData });
const bigWorld = () =>
  openWorld(native, layout, {
    poolName: "main",
    blockBytes: 1 << 20,
    blockCount: 32,
    ioThreads: 2,
  });

function expectEqual(actual, expected) {
  if (actual !== expected) throw new Error(`expected ${expected}, got ${actual}`);
}

/** Terminates a worker that has batches in flight, while this thread wakes it without pause. */
async function terminateBusy(workerData) {
  const worker = start({ body: "busy", ...workerData });
  const [ids] = await once(worker, "message");
  const ended = worker.terminate();
  for (let i = 0; i < 100_000; i++) native.wake(ids.wakeId);
  await ended;
  expectEqual(native.wake(ids.wakeId), false);
  native.sharedRelease(ids.sharedId);
  return ids;
}

const scenarios = {
  /** All memory, control memory too, is registered by the thread that dies. */
  async ownMemory() {
    for (let life = 0; life < 10; life++) {
      const { hashesSharedId } = await terminateBusy({ ownMemory: true, poolName: `own-${life}` });
      let code = "";
      try {
        native.hasherRegister({
          algorithm: "sha256_cbor",
          blockSize: 16,
          noneHash: new Uint8Array(32),
          tokensSharedId: hashesSharedId,
          hashesSharedId,
        });
      } catch (error) {
        code = error.code;
      }
      expectEqual(code, "CLOSED");
    }
  },

  /** The engine and the KV memory are this thread's; only the channel's memory dies. */
  async mainMemory() {
    const world = bigWorld();
    for (let life = 0; life < 10; life++) await terminateBusy({ world });
    expectEqual(native.engineClose(world.engineId, 60_000), 0);
  },

  /** Pinned KV memory dies under batches of this thread: they fail with CLOSED, from the first after the death on. */
  async pinnedMemory() {
    const world = bigWorld();
    const actor = new Actor(native, layout, world);
    for (let life = 0; life < 5; life++) {
      const worker = start({ body: "pin" });
      const [{ keySpaceId }] = await once(worker, "message");
      world.keySpaceId = keySpaceId;
      const entries = Array.from({ length: 40 }, (_, index) => [index, index]);
      expectEqual((await actor.run(layout.OPERATION_PUT, entries))[39], 4096);
      const ended = worker.terminate();
      let results = [4096];
      while (results[0] === 4096) results = await actor.run(layout.OPERATION_GET, entries);
      expectEqual(results.join(), Array(40).fill(-903).join());
      await ended;
      await actor.run(layout.OPERATION_REMOVE_ALL, []);
    }
    actor.close();
    expectEqual(native.engineClose(world.engineId, 60_000), 0);
  },

  /** The process exits with workers and this thread busy. */
  async exit() {
    const world = bigWorld();
    const workers = [
      start({ body: "busy", world }),
      start({ body: "busy", ownMemory: true, poolName: "own" }),
    ];
    // Both at a time: the second may be the first to tell.
    await Promise.all(workers.map((worker) => once(worker, "message")));
    const actor = new Actor(native, layout, world);
    const entries = Array.from({ length: 32 }, (_, index) => [index, index]);
    for (let slot = 0; slot < 4; slot++) actor.submit(slot, layout.OPERATION_PUT, entries);
    console.log("survived");
    process.exit(0);
  },

  /** Memory that is registered, released and dropped is collected, also when another thread lets go of it last. */
  async collected() {
    const megabytes = 8;
    for (let round = 0; round < 200; round++) {
      const view = new Uint8Array(new SharedArrayBuffer(megabytes << 20)).fill(1);
      native.sharedRelease(native.sharedRegister(view));
      native.regionRelease(native.regionPin(view));
      const regionId = native.regionCreate(megabytes << 20);
      new Uint8Array(native.regionView(regionId)).fill(1);
      native.regionRelease(regionId);
      globalThis.gc();
      await new Promise((resolve) => setImmediate(resolve));
    }
    const held = process.memoryUsage.rss() >> 20;
    if (held > 800) throw new Error(`${held} MiB are still held`);
  },
};

await scenarios[process.argv[2]]();
console.log("survived");
