// Bodies of the worker threads of the native tests, chosen by workerData.body.
import { parentPort, workerData } from "node:worker_threads";

import * as layout from "../../dist/blocks/layout.js";
import { loadNative } from "../../dist/native/load.js";
import { Actor, openWorld } from "./native-actor.mjs";

const native = loadNative();

const bodies = {
  async roundTrip({ world }) {
    const actor = new Actor(native, layout, world);
    const memory = new Uint8Array(native.regionView(world.regionId));
    memory.subarray(0, world.blockBytes / 2).fill(42);
    const put = await actor.run(layout.OPERATION_PUT, [[0, 9]]);
    const exists = await actor.run(layout.OPERATION_EXISTS, [[layout.NONE, 9]]);
    const get = await actor.run(layout.OPERATION_GET, [[1, 9]]);
    const byte = memory[world.blockBytes / 2];
    const remove = await actor.run(layout.OPERATION_REMOVE, [[layout.NONE, 9]]);
    actor.close();
    parentPort.postMessage({ put, exists, get, byte, remove });
  },

  /** Opens a wake handle and tells each wake. */
  listen({ wakeId }) {
    native.wakeOpen(wakeId, () => parentPort.postMessage("woken"), true);
    parentPort.on("message", () => {
      native.wakeClose(wakeId);
      parentPort.close();
    });
    parentPort.postMessage("open");
  },

  /** Keeps batches in flight until the thread is terminated; registers all control memory here, on the thread that dies. */
  busy({ world: posted, poolName, ownMemory }) {
    const world = ownMemory
      ? openWorld(native, layout, { poolName, blockBytes: 1 << 20, blockCount: 32 })
      : posted;
    const actor = new Actor(native, layout, world, { batchSlots: 4, keysPerBatchMax: 32 });
    const entries = Array.from({ length: 32 }, (_, index) => [index, index]);
    for (let slot = 0; slot < 4; slot++) actor.submit(slot, layout.OPERATION_PUT, entries);
    const goOn = async () => {
      for (let turn = 0; ; turn++) {
        const { slot } = await actor.take();
        actor.submit(
          slot,
          [layout.OPERATION_GET, layout.OPERATION_REMOVE, layout.OPERATION_PUT][turn % 3],
          entries,
        );
      }
    };
    goOn().catch((error) => parentPort.postMessage(String(error)));
    parentPort.postMessage({
      wakeId: actor.wakeId,
      sharedId: actor.sharedId,
      hashesSharedId: world.hashesSharedId,
    });
  },

  /** Pins memory of its own as a region and a key space, then waits. */
  pin() {
    const view = new Uint8Array(new SharedArrayBuffer(1 << 20));
    const hashes = new Uint8Array(new SharedArrayBuffer(layout.HASH_PAGE_WORDS * 4));
    const regionId = native.regionPin(view);
    const keySpaceId = native.keySpaceRegister({
      hashesSharedId: native.sharedRegister(hashes),
      hashBytes: 32,
      prefixes: ["m"],
      groups: [[{ regionId, offset: 0, strideBytes: 4096, bytes: 4096 }]],
      blockCount: 256,
    });
    parentPort.postMessage({ regionId, keySpaceId });
    setInterval(() => {}, 1 << 30);
  },
};

await bodies[workerData.body](workerData);
