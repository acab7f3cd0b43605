/**
 * Goal: a wheel that is not the tested one fails by name and with the command that mends it, or is warned of: a C library that is
 * missing, a method that is missing, KV memory that it does not register, another version.
 * Method: Python packages called `mooncake` that fail in one of these ways, in a virtual environment without any other package and in
 * a process of its own each; the released wheel does none of it on this machine. The port of the master only accepts connections.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo, Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseStoreConfig } from "../../src/config/store-config.ts";
import type { ConfigWarning } from "../../src/config/warnings.ts";
import type { EngineStatus, MooncakeEngineOptions } from "../../src/native/binding.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { mooncakeEngineOptions } from "../../src/store/mooncake/engine-options.ts";
import { WHEEL_VERSION, wheelWarning } from "../../src/store/mooncake/interpreter.ts";
import { packageRoot } from "../../src/worker-entry.ts";
import { startChild } from "./support/child.ts";
import { engineOptions, wheel } from "./support/mooncake.ts";

const folder = mkdtempSync(join(tmpdir(), "mooncake-kv-wheels-"));
const INSTALL = `-m pip install mooncake-transfer-engine-non-cuda==${WHEEL_VERSION}`;
let master: Server;
let address = "";

beforeAll(async () => {
  master = createServer((socket) => socket.on("error", () => undefined));
  await new Promise<void>((resolve) => master.listen(0, "127.0.0.1", resolve));
  address = `127.0.0.1:${(master.address() as AddressInfo).port}`;
});
afterAll(() => {
  master.close();
  rmSync(folder, { recursive: true });
});

/** An interpreter whose only package is a `mooncake` with this `store` module. */
function pythonWith(name: string, store: string): string {
  const path = join(folder, name);
  execFileSync(wheel.path, ["-m", "venv", "--without-pip", path]);
  const ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
  const python = join(path, "bin", "python3");
  const packages = execFileSync(python, ["-c", ask], { encoding: "utf8" }).trim();
  mkdirSync(join(packages, "mooncake"));
  writeFileSync(join(packages, "mooncake", "__init__.py"), "");
  writeFileSync(join(packages, "mooncake", "store.py"), store);
  return python;
}

interface Opened extends Pick<EngineStatus, "state" | "error"> {
  readonly result: number | null;
}
async function open(pythonExecutable: string, then = ""): Promise<Opened> {
  const script = join(packageRoot(), "test/integration/support/mooncake-open.mjs");
  const options = engineOptions(address, { pythonExecutable });
  const child = startChild(process.execPath, [script, JSON.stringify(options), then]);
  expect(await child.exit, child.errors()).toEqual({ code: 0, signal: null });
  return JSON.parse(child.output()) as Opened;
}

/** Every method that the engine looks up, of a store that is set up and healthy. */
const METHODS = `
class ReplicateConfig:
    group_ids = []
    preferred_segment = ""
class MooncakeDistributedStore:
    def setup(self, *given, **named): return 0
    def health_check(self): return 0
    def register_buffer(self, address, size): return 0
    def unregister_buffer(self, address): return 0
    def is_exist(self, key): return 0
    def batch_put_from_multi_buffers(self, keys, *given): return [0 for key in keys]
    def close(self): return 0
    def unused(self, *given): return 0
    batch_is_exist = batch_get_into_multi_buffers = batch_get_replica_desc = unused
    batch_remove = get_size = get = put = remove = remove_by_regex = remove_all = unused
`;

test("a C library that the wheel needs is missing: named, with its package", async () => {
  const raises = `raise ImportError("librdmacm.so.1: cannot open shared object file: No such file or directory")`;
  const { state, error } = await open(pythonWith("library", raises));
  expect({ state, ...error }).toMatchObject({
    state: "failed",
    code: "CONFIGURATION",
    field: "mooncake",
  });
  expect(error?.problem).toContain("misses a C library: ");
  expect(error?.problem).toContain("librdmacm.so.1");
  expect(error?.remedy).toContain("apt-get install");
  expect(error?.remedy).toContain("librdmacm1");
});

test("a method that the engine calls is missing: refused before any master is asked, with the version that has it", async () => {
  const python = pythonWith("method", METHODS.replace("= batch_get_replica_desc", ""));
  const { state, error } = await open(python);
  expect({ state, ...error }).toMatchObject({
    state: "failed",
    code: "CONFIGURATION",
    field: "mooncake",
    remedy: `Run: ${python} ${INSTALL}`,
  });
  expect(error?.problem).toContain("batch_get_replica_desc");
});

test("KV memory that the wheel does not register: the engine fails for good and says so", async () => {
  const refuses = METHODS.replace(
    "def register_buffer(self, address, size): return 0",
    "def register_buffer(self, address, size): return -600",
  );
  const { state, error, result } = await open(pythonWith("registration", refuses), "put");
  expect(result).toBe(EngineCode.REGISTRATION_REFUSED);
  expect({ state, ...error }).toMatchObject({
    state: "failed",
    code: "REGISTRATION_REFUSED",
    field: "regionId",
  });
  expect(error?.problem).toContain("code -600");
  expect(error?.remedy).not.toBe("");
});

test("the same package without a fault opens: the faults above are what is refused", async () => {
  expect(await open(pythonWith("good", METHODS), "put")).toMatchObject({
    state: "open",
    error: null,
    result: 4096,
  });
});

test("a package of another or of no version is used with a warning that has the command", () => {
  const path = "/venv/bin/python3";
  const wheelName = "mooncake-transfer-engine";
  expect(wheelWarning({ path, wheelName, wheelVersion: WHEEL_VERSION })).toBeNull();
  expect(wheelWarning({ path, wheelName, wheelVersion: "0.3.9" })).toMatchObject({
    field: wheelName,
    value: "0.3.9",
    problem: expect.stringContaining(WHEEL_VERSION),
    remedy: expect.stringContaining(`${path} -m pip install ${wheelName}==${WHEEL_VERSION}`),
  });

  const store = parseStoreConfig({
    metadata_server: "P2PHANDSHAKE",
    master_server_address: address,
    protocol: "tcp",
  });
  const warnings: ConfigWarning[] = [];
  const warned = (python: string | null): string[] => {
    warnings.length = 0;
    mooncakeEngineOptions(
      { store, requesterLocalHostname: null, python, searchPath: "" },
      { preferredSegment: null, enableGroupSemantics: false, storeTierLog: false },
      packageRoot(),
      (warning) => warnings.push(warning),
    );
    return warnings.map(({ field }) => field);
  };
  expect(warned(wheel.path)).toEqual([]);
  expect(warned(pythonWith("version", METHODS))).toEqual(["mooncake-transfer-engine-non-cuda"]);
});

test("tiers are asked for where the log or a disk tier wants them; a member without a name gets one from the addon", () => {
  const given = (enableOffload: boolean, storeTierLog: boolean): MooncakeEngineOptions => {
    const store = parseStoreConfig({
      metadata_server: "P2PHANDSHAKE",
      master_server_address: address,
      enable_offload: enableOffload,
    });
    return mooncakeEngineOptions(
      { store, requesterLocalHostname: null, python: wheel.path, searchPath: "" },
      { preferredSegment: null, enableGroupSemantics: false, storeTierLog },
      packageRoot(),
    );
  };
  expect(given(false, false)).toMatchObject({ reportTiers: false, localHostname: "" });
  expect(given(false, true).reportTiers).toBe(true);
  expect(given(true, false).reportTiers).toBe(true);
});
