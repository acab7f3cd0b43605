/**
 * Goal: calls on single keys reach the engine and their answers the thread that asked, if it is still there; an engine that
 * cannot be opened says why and answers everything at once.
 * Method: the local engine through the addon, from the main thread and from workers that end with calls under way; the Mooncake
 * engine with an interpreter that does not exist.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterEach, expect, test } from "vitest";
import { parseStoreConfig } from "../../src/config/store-config.ts";
import { addonPaths, loadNative } from "../../src/native/load.ts";
import { EngineCalls } from "../../src/store/engine-calls.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { engineOptionsWith } from "../../src/store/mooncake/engine-options.ts";
import { EngineWatch } from "../../src/actors/runtime/engine-watch.ts";
import { NO_TRACE } from "../../src/trace/events.ts";

const native = loadNative();
const TIMEOUT_MS = 60_000;
const opened: number[] = [];
let poolNumber = 0;

afterEach(() => {
  for (const engineId of opened.splice(0)) expect(native.engineClose(engineId, 10_000)).toBe(0);
});

function openLocal(): { engineId: number; calls: EngineCalls } {
  const engineId = native.engineOpen({
    kind: "local",
    poolName: `engine-calls-${process.pid}-${poolNumber++}`,
    bytesMax: 16 << 20,
    ioThreads: 1,
    verifyChecksums: true,
  });
  opened.push(engineId);
  return { engineId, calls: new EngineCalls({ native, engineId }) };
}

const text = (words: string): Uint8Array => new TextEncoder().encode(words);

test("values of single keys are stored once, read, listed and removed", async () => {
  const { calls, engineId } = openLocal();
  expect(native.engineState(engineId)).toEqual({
    state: "open",
    error: null,
    reopenings: 0,
    hungCalls: 0,
    hungOpens: 0,
    transitRefusals: 0,
    callsInFlight: 0,
  });
  expect(await calls.getValue("a/1", TIMEOUT_MS)).toEqual({ ok: true, value: null });
  const first = text("first");
  const put = calls.putValue("a/1", first, TIMEOUT_MS);
  // Copied before the call returned.
  first.fill(0);
  expect(await put).toEqual({ ok: true, value: "stored" });
  expect(await calls.putValue("a/1", text("second"), TIMEOUT_MS)).toEqual({
    ok: true,
    value: "present",
  });
  expect(await calls.getValue("a/1", TIMEOUT_MS)).toEqual({ ok: true, value: text("first") });
  for (const key of ["a/2", "b/1", "b/2"]) await calls.putValue(key, text(key), TIMEOUT_MS);
  const listed = await calls.keys("a/", 10, TIMEOUT_MS);
  expect(listed.ok && listed.value.toSorted()).toEqual(["a/1", "a/2"]);
  expect(await calls.keys("", 3, TIMEOUT_MS)).toMatchObject({ value: { length: 3 } });
  expect(await calls.removeKey("a/1", TIMEOUT_MS)).toEqual({ ok: true, value: true });
  expect(await calls.removeKey("a/1", TIMEOUT_MS, true)).toEqual({ ok: true, value: false });
  expect(await calls.removePrefix("a/", TIMEOUT_MS)).toEqual({ ok: true, value: 1 });
  await calls.putValue("b/@m@tp_rank:0@ff", text("of a prefix"), TIMEOUT_MS);
  await calls.putValue("b/@tp_rank:0@ff", text("of a model"), TIMEOUT_MS);
  const ofPrefix = { operation: "removeCachePrefix", prefix: "b/" } as const;
  expect(await calls.remove(ofPrefix, false, TIMEOUT_MS)).toEqual({
    ok: true,
    value: { removed: 1, kept: 0 },
  });
  expect(await calls.removeAll(false, TIMEOUT_MS)).toEqual({ ok: true, value: 3 });
  expect(await calls.health(TIMEOUT_MS)).toEqual({ ok: true, value: true });
  expect(native.engineStatistics(engineId)).toMatchObject({ keys: 0, state: "open", hungCalls: 0 });
});

test("a value that does not fit, or has changed in the pool, is a typed answer", async () => {
  const { calls, engineId } = openLocal();
  await calls.putValue("flipped", text("right"), TIMEOUT_MS);
  expect(native.engineCorrupt(engineId, "flipped", 2)).toBe(true);
  expect(await calls.getValue("flipped", TIMEOUT_MS)).toMatchObject({
    ok: false,
    code: EngineCode.CHECKSUM_MISMATCH,
  });
  expect(await calls.getValue("flipped", TIMEOUT_MS)).toEqual({ ok: true, value: null });
});

test("wrong arguments are named", async () => {
  const { calls, engineId } = openLocal();
  await expect(calls.putValue("k", new Uint8Array(0), TIMEOUT_MS)).rejects.toMatchObject({
    code: "INVALID_VALUE",
    field: "request.value",
  });
  await expect(calls.keys("", -1, TIMEOUT_MS)).rejects.toMatchObject({ field: "request.limit" });
  const wrong = { operation: "sing" } as unknown as { operation: "health" };
  expect(() => native.engineCall(engineId, wrong, () => undefined)).toThrow(/request.operation/);
  expect(() => native.engineCall(1 << 30, { operation: "health" }, () => undefined)).toThrow(
    /engineId/,
  );
});

test("a thread may end with calls under way", async () => {
  const { calls, engineId } = openLocal();
  const ask = `
    const { workerData, parentPort } = require("node:worker_threads");
    const native = require(workerData.addon);
    let answers = 0;
    for (let call = 0; call < 200; call++) {
      const request = { operation: "putValue", key: "k" + call, value: new Uint8Array(65536) };
      native.engineCall(workerData.engineId, request, () => {
        if (++answers === workerData.last) process.exit();
      });
    }
    // Calls do not keep a thread; this does.
    setTimeout(() => undefined, 60000);`;
  for (const last of [1, 3, 50, 200]) {
    const workerData = { addon: addonPaths()[0], engineId, last };
    const worker = new Worker(ask, { eval: true, workerData });
    expect(await once(worker, "exit")).toEqual([0]);
    expect(await calls.health(TIMEOUT_MS)).toEqual({ ok: true, value: true });
  }
});

test("an engine that cannot be opened says why, and answers at once", async () => {
  const stateWakeId = native.wakeReserve();
  const engineId = native.engineOpen({ ...MOONCAKE, stateWakeId });
  opened.push(engineId);
  const lines: object[] = [];
  const line = (fields: object): void => void lines.push(fields);
  const log = { debug: line, info: line, warn: line, error: line };
  const watch = new EngineWatch({ native, engineId, wakeId: stateWakeId, trace: NO_TRACE, log });
  await expect(watch.settle(TIMEOUT_MS)).rejects.toMatchObject({
    name: "MooncakeKvError",
    remedy: expect.stringMatching(/./) as unknown,
  });
  expect(watch.status()).toMatchObject({ state: "failed", error: { code: "CONFIGURATION" } });
  expect(lines).toHaveLength(1);
  const calls = new EngineCalls({ native, engineId });
  expect(await calls.health(TIMEOUT_MS)).toMatchObject({ ok: false, code: EngineCode.ENGINE_DOWN });
  expect(() => native.engineKeys(engineId, "", 1)).toThrow(/engineCall/);
  watch.close();
  expect(watch.status().state).toBe("closed");
});

const MOONCAKE = engineOptionsWith(
  { path: "/no/such/python3", sharedLibrary: "/no/such/libpython3.so" },
  {
    store: parseStoreConfig({
      mode: "standalone-store",
      metadata_server: "P2PHANDSHAKE",
      master_server_address: "127.0.0.1:1",
      global_segment_size: 0,
      local_buffer_size: "1mb",
      protocol: "tcp",
    }),
    requesterLocalHostname: "127.0.0.1",
  },
  { preferredSegment: null, enableGroupSemantics: false, storeTierLog: false },
);
