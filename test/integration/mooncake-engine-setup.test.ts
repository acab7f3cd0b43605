/**
 * Goal: whatever is missing for the engine is a failure with a name and the command that mends it; the wheel's log goes to its
 * reader, with its level, and never to the terminal; the process ends cleanly after all of it.
 * Method: a child process a case (a process has one interpreter for good), a virtual environment without the wheel, libraries that
 * are none.
 */
import { afterAll, expect, test } from "vitest";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { EngineStatus } from "../../src/native/binding.ts";
import { mooncakeEngineOptions } from "../../src/store/mooncake/engine-options.ts";
import { parseStoreConfig } from "../../src/config/store-config.ts";
import { packageRoot } from "../../src/worker-entry.ts";
import { startChild } from "./support/child.ts";
import { engineOptions, wheel } from "./support/mooncake.ts";
import { startTestMaster } from "./support/mooncake-wheel.ts";

const MIB = 1 << 20;
const folder = mkdtempSync(join(tmpdir(), "mooncake-kv-setup-"));
afterAll(() => rmSync(folder, { recursive: true }));

interface Opened {
  readonly state: EngineStatus["state"];
  readonly error: EngineStatus["error"];
  readonly lines: readonly {
    readonly level: string;
    readonly text: string;
    readonly mooncake: string;
  }[];
  readonly errors: string;
}
async function open(options: object, then = ""): Promise<Opened> {
  const script = join(packageRoot(), "test/integration/support/mooncake-open.mjs");
  const child = startChild(process.execPath, [script, JSON.stringify(options), then]);
  expect(await child.exit).toEqual({ code: 0, signal: null });
  return { ...(JSON.parse(child.output()) as Opened), errors: child.errors() };
}

/** An interpreter without any package. */
function bareEnvironment(): string {
  const path = join(folder, "bare");
  execFileSync(wheel.path, ["-m", "venv", "--without-pip", path]);
  return join(path, "bin", "python3");
}

test("the wheel is missing", async () => {
  const python = bareEnvironment();
  const { state, error } = await open(engineOptions("127.0.0.1:1", { pythonExecutable: python }));
  expect({ state, ...error }).toMatchObject({
    state: "failed",
    code: "CONFIGURATION",
    field: "mooncake",
    remedy: `Run: ${python} -m pip install mooncake-transfer-engine-non-cuda==0.3.13.post1`,
  });
  expect(error?.problem).toContain("No module named 'mooncake'");
});

test("the interpreter's library is missing, or is none", async () => {
  const missing = await open(
    engineOptions("127.0.0.1:1", { pythonLibrary: "/nowhere/libpython3.so" }),
  );
  expect({ state: missing.state, ...missing.error }).toMatchObject({
    state: "failed",
    code: "CONFIGURATION",
    field: "MOONCAKE_PYTHON",
  });
  expect(missing.error?.remedy).toContain("libpython3");
  const other = await open(engineOptions("127.0.0.1:1", { pythonLibrary: "libc.so.6" }));
  expect(other).toMatchObject({ state: "failed", error: { code: "CONFIGURATION" } });
  expect(other.error?.problem).toContain("the library has no Py");
});

test("the interpreter is found, and what it lacks is said, before anything is opened", () => {
  const store = parseStoreConfig({
    metadata_server: "P2PHANDSHAKE",
    master_server_address: "127.0.0.1:50051",
    protocol: "tcp",
    local_buffer_size: "16mb",
  });
  const pool = { store, requesterLocalHostname: "127.0.0.1", python: null, searchPath: "" };
  const settings = { preferredSegment: "h:1", enableGroupSemantics: true, storeTierLog: false };
  expect(mooncakeEngineOptions(pool, settings, packageRoot())).toMatchObject({
    pythonExecutable: wheel.path,
    pythonLibrary: wheel.sharedLibrary,
    localHostname: "127.0.0.1",
    globalSegmentBytes: 4 * 1024 * MIB,
    localBufferBytes: 16 * MIB,
    preferredSegment: "h:1",
    groupSemantics: true,
  });
  const lacking = expect.objectContaining({ code: "MISSING", field: "MOONCAKE_PYTHON" });
  for (const python of [bareEnvironment(), "/nowhere/python3"])
    expect(() => mooncakeEngineOptions({ ...pool, python }, settings, folder)).toThrow(lacking);
  const silent = join(folder, "silent");
  writeFileSync(silent, "#!/bin/sh\nexit 3\n", { mode: 0o755 });
  expect(() => mooncakeEngineOptions({ ...pool, python: silent }, settings, folder)).toThrow(
    /does not run/,
  );
});

test("Mooncake's log goes to its reader with its level, and nothing to the terminal", async () => {
  const master = await startTestMaster({ mooncakeFolder: wheel.mooncakeFolder });
  try {
    const options = engineOptions(`127.0.0.1:${master.port}`, { globalSegmentBytes: 16 * MIB });
    const { state, lines, errors } = await open(options, "miss");
    expect({ state, errors }).toEqual({ state: "open", errors: "" });
    const levels = new Map(lines.map(({ level, text }) => [text, level]));
    expect([...levels].find(([text]) => text.startsWith("Mounting segment"))?.[1]).toBe("info");
    expect([...levels.values()]).toContain("error");
    expect(lines.every(({ mooncake }) => /^\w+\.(cpp|h):\d+$/.test(mooncake))).toBe(true);
  } finally {
    await master.process.stop();
  }
});

test("a master that refuses the set-up is named with what the store says", async () => {
  const master = await startTestMaster({ mooncakeFolder: wheel.mooncakeFolder });
  try {
    // Something listens there, but it is no master.
    const { state, error } = await open(engineOptions(`127.0.0.1:${master.metricsPort}`), "down");
    expect({ state, ...error }).toMatchObject({ state: "down", code: "UNREACHABLE" });
    expect(error?.problem).toContain("set-up failed");
  } finally {
    await master.process.stop();
  }
});
