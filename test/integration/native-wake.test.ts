/**
 * Goal: any thread wakes the loop that opened a wake number, and only while it has it open.
 * Method: real worker threads; what is awaited is the event itself, never a delay.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";

import { loadNative } from "../../src/native/load.ts";

const native = loadNative();

test("another thread is woken, and not after it closed", async () => {
  const wakeId = native.wakeReserve();
  expect(native.wake(wakeId)).toBe(false);
  const worker = new Worker(new URL("./native-worker.mjs", import.meta.url), {
    workerData: { body: "listen", wakeId },
  });
  expect(await once(worker, "message")).toEqual(["open"]);
  for (let round = 0; round < 20; round++) {
    const woken = once(worker, "message");
    expect(native.wake(wakeId)).toBe(true);
    expect(await woken).toEqual(["woken"]);
  }
  expect(() => native.wakeOpen(wakeId, () => {}, false)).toThrow(/a thread has it open already/);
  expect(() => native.wakeClose(wakeId)).toThrow(/another thread opened it/);
  worker.postMessage("close");
  await once(worker, "exit");
  expect(native.wake(wakeId)).toBe(false);
});

test("a thread's end closes its handles, and a successor opens the same number", async () => {
  const wakeId = native.wakeReserve();
  for (let life = 0; life < 3; life++) {
    const worker = new Worker(new URL("./native-worker.mjs", import.meta.url), {
      workerData: { body: "listen", wakeId },
    });
    expect(await once(worker, "message")).toEqual(["open"]);
    expect(native.wake(wakeId)).toBe(true);
    await worker.terminate();
    expect(native.wake(wakeId)).toBe(false);
  }
});

test("many wakes before the loop turns are one call; promises settle in it", async () => {
  const wakeId = native.wakeReserve();
  let calls = 0;
  let afterMicrotask = 0;
  const called = new Promise<void>((resolve) => {
    native.wakeOpen(
      wakeId,
      () => {
        calls++;
        void Promise.resolve().then(() => {
          afterMicrotask = calls;
          resolve();
        });
      },
      true,
    );
  });
  for (let i = 0; i < 1000; i++) native.wake(wakeId);
  await called;
  expect([calls, afterMicrotask]).toEqual([1, 1]);
  native.wakeClose(wakeId);
  native.wakeClose(wakeId);
  expect(native.wake(wakeId)).toBe(false);
});

test("numbers that were never reserved", () => {
  expect(native.wake(1 << 30)).toBe(false);
  expect(() => native.wakeOpen(1 << 30, () => {}, false)).toThrow(/wakeReserve/);
});
