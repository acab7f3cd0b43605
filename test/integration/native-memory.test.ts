/**
 * Goal: regions are seen by id, live as long as someone uses them, and errors of the addon are MooncakeKvErrors that name field,
 * value and remedy.
 * Method: the real addon; views of one region in one process must show the same bytes.
 */
import { fstatSync } from "node:fs";
import { expect, test } from "vitest";

import { MooncakeKvError } from "../../src/errors.ts";
import { addonPaths, loadFrom, loadNative } from "../../src/native/load.ts";

const native = loadNative();

function errorOf(action: () => unknown): { code: string; field: string } {
  try {
    action();
  } catch (error) {
    if (!(error instanceof MooncakeKvError)) throw error;
    expect(error.remedy).not.toBe("");
    expect(error.message).toContain(error.remedy);
    return { code: error.code, field: error.field };
  }
  throw new Error("nothing was thrown");
}

test("views of a region share its bytes and keep them after the release", () => {
  const regionId = native.regionCreate(10_000);
  const info = native.regionInfo(regionId);
  expect(info).toMatchObject({ kind: "memfd", bytes: 10_000 });
  expect(fstatSync(info.fileDescriptor).size).toBe(10_000);
  const one = new Uint8Array(native.regionView(regionId));
  const two = new Uint8Array(native.regionView(regionId));
  expect(one.every((byte) => byte === 0)).toBe(true);
  one[9_999] = 7;
  expect(two[9_999]).toBe(7);
  native.regionRelease(regionId);
  native.regionRelease(regionId);
  two[0] = 1;
  expect(one[0]).toBe(1);
  expect(errorOf(() => native.regionView(regionId))).toEqual({ code: "CLOSED", field: "regionId" });
});

test("pinned memory is a region without a view of ours", () => {
  const regionId = native.regionPin(new Uint8Array(new SharedArrayBuffer(4096)));
  expect(native.regionInfo(regionId)).toEqual({ kind: "host", bytes: 4096, fileDescriptor: -1 });
  expect(errorOf(() => native.regionView(regionId)).code).toBe("UNSUPPORTED");
  native.regionRelease(regionId);
});

test("wrong arguments name the field", () => {
  const engine = {
    kind: "local" as const,
    poolName: "x",
    bytesMax: 1 << 20,
    ioThreads: 1,
    verifyChecksums: false,
  };
  const hasher = {
    algorithm: "sha256_cbor" as const,
    blockSize: 16,
    noneHash: new Uint8Array(32),
    tokensSharedId: 0,
    hashesSharedId: 0,
  };
  const wrong = (value: unknown): never => value as never;
  const cases: [() => unknown, string, string][] = [
    [() => native.regionCreate(0), "INVALID_VALUE", "bytes"],
    [() => native.regionCreate(2 ** 60), "INVALID_VALUE", "bytes"],
    [() => native.regionCreate(Number.NaN), "INVALID_TYPE", "bytes"],
    [() => native.regionCreate(wrong("8")), "INVALID_TYPE", "bytes"],
    [() => native.regionCreate(wrong(undefined)), "INVALID_TYPE", "bytes"],
    [() => native.regionInfo(1 << 30), "INVALID_VALUE", "regionId"],
    [() => native.sharedRegister(wrong(new Int32Array(4))), "INVALID_TYPE", "view"],
    [() => native.sharedRegister(wrong(new SharedArrayBuffer(4))), "INVALID_TYPE", "view"],
    [() => native.sharedRegister(new Uint8Array(0)), "INVALID_VALUE", "view"],
    [() => native.sharedRelease(1 << 30), "INVALID_VALUE", "sharedId"],
    [() => native.engineOpen(wrong(null)), "INVALID_TYPE", "options"],
    [() => native.engineOpen({ ...engine, kind: wrong("disk") }), "UNSUPPORTED", "kind"],
    [() => native.engineOpen({ ...engine, poolName: "" }), "INVALID_VALUE", "poolName"],
    [() => native.engineOpen({ ...engine, ioThreads: 0 }), "INVALID_VALUE", "options.ioThreads"],
    [() => native.engineOpen({ ...engine, ioThreads: 1.5 }), "INVALID_TYPE", "options.ioThreads"],
    [
      () => native.engineOpen({ ...engine, verifyChecksums: wrong(1) }),
      "INVALID_TYPE",
      "options.verifyChecksums",
    ],
    [() => native.engineStatistics(1 << 30), "INVALID_VALUE", "engineId"],
    [
      () => native.hasherRegister({ ...hasher, algorithm: wrong("md5") }),
      "UNSUPPORTED",
      "options.algorithm",
    ],
    [() => native.hasherRegister(hasher), "INVALID_VALUE", "sharedId"],
    [() => native.hashBlocks(1 << 30, 0, 0, -1, 0, 1), "INVALID_VALUE", "hasherId"],
    [() => native.channelSubmit(1 << 30, 0), "INVALID_VALUE", "channelId"],
    [() => native.wakeOpen(native.wakeReserve(), wrong(3), true), "INVALID_TYPE", "callback"],
  ];
  for (const [action, code, field] of cases)
    expect([errorOf(action), String(action)]).toEqual([{ code, field }, String(action)]);
});

test("a key space that reaches outside its region is refused", () => {
  const hashesSharedId = native.sharedRegister(new Uint8Array(new SharedArrayBuffer(2048)));
  const regionId = native.regionCreate(4096);
  const register = (offset: number): number =>
    native.keySpaceRegister({
      hashesSharedId,
      hashBytes: 32,
      prefixes: ["m"],
      groups: [[{ regionId, offset, strideBytes: 1024, bytes: 1024 }]],
      blockCount: 4,
    });
  const keySpaceId = register(0);
  expect(errorOf(() => register(1))).toEqual({
    code: "INVALID_VALUE",
    field: "groups[0][0].offset",
  });
  expect(errorOf(() => native.keyOf(keySpaceId, 0, 62)).code).toBe("INVALID_VALUE");
  expect(errorOf(() => native.keyOf(keySpaceId, 1, 0)).code).toBe("INVALID_VALUE");
});

test("a missing or broken addon says what to run", () => {
  expect(errorOf(() => loadFrom(["/nowhere/mooncake-kv.node"]))).toEqual({
    code: "NATIVE_MISSING",
    field: "mooncake-kv.node",
  });
  expect(errorOf(() => loadFrom([process.execPath]))).toEqual({
    code: "NATIVE_MISSING",
    field: "mooncake-kv.node",
  });
  expect(addonPaths("/package")[0]).toBe(
    `/package/prebuilds/linux-${process.arch}/mooncake-kv.node`,
  );
});

test("clocks count nanoseconds and go on", () => {
  const before = [native.monotonicNanoseconds(), native.threadCpuNanoseconds()] as const;
  for (let spin = 0; native.threadCpuNanoseconds() - before[1] < 1e6; spin++);
  expect(native.monotonicNanoseconds() - before[0]).toBeGreaterThanOrEqual(1e6);
});
