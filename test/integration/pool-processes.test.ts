/**
 * Goal: a development pool of real processes starts healthy, tells of an end that nobody asked for, fails to start with the
 * reason, and leaves no process behind.
 * Method: master and owners of the Mooncake wheel on free loopback ports; ends are forced by pid.
 */
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ManagedProcess } from "../../src/pool/managed-process.ts";
import { startOwner } from "../../src/pool/owner.ts";
import type { RunningPool } from "../../src/pool/pool.ts";
import { identify, waitUntilGone } from "../../src/pool/process-identity.ts";
import type { ProcessIdentity } from "../../src/pool/process-identity.ts";
import { startTestPool, testWheel, startTestMaster } from "./support/mooncake-wheel.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "pool-processes-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function processesOf(pool: RunningPool): ProcessIdentity[] {
  return [pool.master.process, ...pool.owners.map((owner) => owner.process)]
    .map(({ name, pid }) => identify(name, pid))
    .filter((each) => each !== null);
}

test("a pool of two owners with disks is healthy, describes itself, and stops without leftovers", async () => {
  const said: string[] = [];
  const pool = await startTestPool({
    owners: 2,
    ssdFolder: join(folder, "ssd"),
    onProgress: (text) => said.push(text),
  });
  const processes = processesOf(pool);
  try {
    expect(processes).toHaveLength(3);
    expect(said).toEqual(["starting the master", "starting owner-1", "starting owner-2"]);
    expect(pool.store).toMatchObject({
      mode: "standalone-store",
      global_segment_size: 0,
      enable_offload: true,
      master_server_address: `127.0.0.1:${pool.master.port}`,
    });
    const members = await pool.master.admin.segments();
    expect(members.map(({ name }) => name).toSorted()).toEqual(
      pool.owners.map(({ segment }) => segment).toSorted(),
    );
    expect(
      members.every(({ status, bytesMax }) => status === "OK" && bytesMax === 64 * 1024 ** 2),
    ).toBe(true);
    expect(existsSync(join(folder, "ssd", "owner-1"))).toBe(true);
  } finally {
    await pool.stop();
  }
  expect(await waitUntilGone(processes, 0)).toBe(true);
  await pool.stop();
});

test("a pool without owner is embedded: the members give the memory", async () => {
  const pool = await startTestPool({ owners: 0, memoryBytes: 12_345_678 });
  try {
    expect(pool.store).toMatchObject({ mode: "embedded", global_segment_size: 12_345_678 });
    expect(await pool.master.admin.segments()).toEqual([]);
  } finally {
    await pool.stop();
  }
});

test("an owner that is killed is told, with what it wrote last", async () => {
  const pool = await startTestPool();
  try {
    pool.owners[0]?.process.kill("SIGKILL");
    const { name, end, tail } = await pool.failed;
    expect(name).toBe("owner");
    expect(end).toEqual({ code: null, signal: "SIGKILL" });
    expect(tail).toContain("real client service");
  } finally {
    await pool.stop();
  }
});

test("a wished port that is taken is refused before anything starts", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  try {
    await expect(startTestPool({ port })).rejects.toMatchObject({
      code: "INVALID_VALUE",
      field: "--port",
      value: port,
    });
  } finally {
    server.close();
  }
});

test("a master that refuses a flag fails with its own words", async () => {
  const refused = startTestPool({ masterFlags: { no_such_flag: "1" } });
  await expect(refused).rejects.toMatchObject({ code: "CLOSED", field: "mooncake_master" });
  await expect(refused).rejects.toThrow("no_such_flag");
});

test("an owner that cannot start ends the master too", async () => {
  const { mooncakeFolder } = await testWheel();
  const master = await startTestMaster({ mooncakeFolder });
  try {
    const owner = startOwner({
      mooncakeFolder,
      master,
      name: "owner",
      memoryBytes: 64 * 1024 ** 2,
      protocol: "no-such-protocol",
      deviceName: "",
      ssdFolder: null,
      port: 0,
      logPath: join(folder, "owner.log"),
    });
    await expect(owner).rejects.toMatchObject({
      field: "owner",
      remedy: expect.stringContaining("It wrote last") as string,
    });
    expect(existsSync(join(folder, "owner.log"))).toBe(true);
  } finally {
    await master.process.stop();
  }
  await expect(startTestPool({ protocol: "no-such-protocol" })).rejects.toMatchObject({
    field: "owner",
  });
  expect(mooncakeChildren()).toEqual([]);
});

/** Names of Mooncake's processes among the children of this one. */
function mooncakeChildren(): string[] {
  return readdirSync("/proc/self/task")
    .flatMap((task) => readFileSync(`/proc/self/task/${task}/children`, "utf8").split(" "))
    .filter((pid) => pid !== "")
    .map((pid) => readFileSync(`/proc/${pid}/comm`, "utf8").trim())
    .filter((name) => name.startsWith("mooncake"));
}

test("a process that is deaf to SIGTERM is killed; one that never gets ready is told with its output", async () => {
  const deaf = await ManagedProcess.start({
    name: "deaf",
    program: process.execPath,
    args: [
      "-e",
      "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000); console.log('listening to nobody')",
    ],
    logPath: null,
  });
  await deaf.waitUntilReady(async () => deaf.output.includes("listening"), 30_000, "Wait.");
  const never = deaf.waitUntilReady(async () => false, 1, "Give it more time.");
  await expect(never).rejects.toMatchObject({ code: "TIMEOUT" });
  await expect(never).rejects.toThrow("listening to nobody");
  expect(await deaf.stop(1)).toEqual({ code: null, signal: "SIGKILL" });
});

test("a program that does not exist is named", async () => {
  const start = ManagedProcess.start({
    name: "owner",
    program: join(folder, "none"),
    args: [],
    logPath: null,
  });
  await expect(start).rejects.toMatchObject({ code: "MISSING", field: "owner" });
});
