/**
 * Goal: of a development pool's files nothing goes while any of its processes lives, seen or not; what goes then is what
 * `pool start` has made, never what a file names; a broken record hides no other pool.
 * Method: folders with real locks, held by a real process; records as others might have left them.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { holdsLock, makePoolFolder } from "../../src/pool/pool-folder.ts";
import { identify } from "../../src/pool/process-identity.ts";
import { readPools, stopRecordedPool } from "../../src/pool/state.ts";

const STORE = {
  mode: "embedded",
  metadata_server: "P2PHANDSHAKE",
  master_server_address: "127.0.0.1:50051",
  global_segment_size: 1,
  local_buffer_size: 1,
  protocol: "tcp",
  device_name: "",
  enable_offload: false,
};
let root: string;
let pools: string;
beforeEach(() => {
  root = fs.mkdtempSync(join(tmpdir(), "pool-folder-"));
  pools = join(root, "pools");
});
afterEach(() => fs.rmSync(root, { recursive: true }));

/** A pool's folder whose lock a process holds that knows nothing of it. */
async function plant(record: object | string) {
  const { path, lockDescriptor } = makePoolFolder(pools);
  const holder = spawn("sleep", ["600"], { stdio: ["ignore", "ignore", "ignore", lockDescriptor] });
  await once(holder, "spawn");
  fs.closeSync(lockDescriptor);
  fs.mkdirSync(join(path, "ssd"));
  const text = typeof record === "string" ? record : JSON.stringify(record);
  fs.writeFileSync(join(path, "pool.json"), text);
  const end = async (): Promise<void> => {
    holder.kill("SIGKILL");
    await once(holder, "exit");
  };
  return { path, pid: holder.pid ?? 0, end };
}

function recordOf(pids: readonly number[], more: object = {}): object {
  const processes = pids.map(
    (pid) => identify("a process", pid) ?? { name: "gone", pid, startTicks: 1 },
  );
  const [keeper] = processes;
  return {
    version: 2,
    keeper,
    processes,
    port: 50051,
    metricsPort: 9003,
    store: STORE,
    segments: [],
    ...more,
  };
}

test("what is held lives, though none of the recorded processes can be seen; what is free goes", async () => {
  const pool = await plant(recordOf([2 ** 30]));
  expect(readPools(pools).living.map(({ folder }) => folder)).toEqual([pool.path]);
  expect(fs.existsSync(join(pool.path, "ssd"))).toBe(true);
  await pool.end();
  expect(readPools(pools)).toEqual({ living: [], broken: [] });
  expect(fs.existsSync(pool.path)).toBe(false);
});

test("a pool that is being started is neither shown nor removed", () => {
  const { path, lockDescriptor } = makePoolFolder(pools);
  expect(readPools(pools)).toEqual({ living: [], broken: [] });
  expect(fs.existsSync(path)).toBe(true);
  fs.closeSync(lockDescriptor);
  readPools(pools);
  expect(fs.existsSync(path)).toBe(false);
});

test.each<[string, object | string]>([
  ["only a version", { version: 1 }],
  ["nested lists", "[".repeat(100_000) + "]".repeat(100_000)],
  ["no JSON", "{"],
  ["an empty file", ""],
  ["a store of another kind", recordOf([1], { store: { master_server_address: 5 } })],
  ["no port", recordOf([1], { port: "x" })],
])("a record with %s is named and left alone; the others work", async (_what, record) => {
  const [good, bad] = [await plant(recordOf([process.pid])), await plant(record)];
  const { living, broken } = readPools(pools);
  expect(living.map(({ folder }) => folder)).toEqual([good.path]);
  expect(broken.map(({ path }) => path)).toEqual([bad.path]);
  expect(broken[0]?.problem).toContain("pool.json");
  await Promise.all([good.end(), bad.end()]);
  // Nobody holds it, so that it goes, whatever is written in it.
  expect(readPools(pools)).toEqual({ living: [], broken: [] });
});

test("nothing that a record or a link names is removed", async () => {
  const precious = join(root, "precious");
  fs.mkdirSync(precious);
  fs.writeFileSync(join(precious, "data"), "data");
  const pool = await plant(
    recordOf([2 ** 30], { logFolder: precious, storePath: join(precious, "data") }),
  );
  fs.rmdirSync(join(pool.path, "ssd"));
  fs.symlinkSync(precious, join(pool.path, "ssd"));
  await pool.end();
  // Whole pools that are links, folders of others, and those that an older version has left.
  fs.symlinkSync(precious, join(pools, "pool-linked"));
  fs.mkdirSync(join(pools, "50051"));
  fs.writeFileSync(
    join(pools, "50051", "pool.json"),
    JSON.stringify({ version: 1, logFolder: precious }),
  );
  fs.mkdirSync(join(pools, "pool-aaaaaa"));
  fs.symlinkSync(join(precious, "data"), join(pools, "pool-aaaaaa", "lock"));
  fs.mkdirSync(join(pools, "pool-bbbbbb"));
  fs.writeFileSync(join(pools, "pool-bbbbbb", "lock"), "another program's");
  const { living, broken } = readPools(pools);
  expect(living).toEqual([]);
  expect(broken).toHaveLength(4);
  expect(fs.readdirSync(pools).toSorted()).toEqual([
    "50051",
    "pool-aaaaaa",
    "pool-bbbbbb",
    "pool-linked",
  ]);
  expect(fs.readFileSync(join(precious, "data"), "utf8")).toBe("data");
});

test("files that somebody has put beside a dead pool's stay, and are named", async () => {
  const pool = await plant(recordOf([2 ** 30]));
  fs.writeFileSync(join(pool.path, "notes"), "mine");
  await pool.end();
  expect(readPools(pools).broken).toEqual([
    { path: pool.path, problem: expect.stringContaining("other files") as string },
  ]);
  expect(fs.readdirSync(pool.path)).toEqual(["notes"]);
});

test("only processes that hold the lock are ended, whatever the record names", async () => {
  const bystander = spawn("sleep", ["600"], { stdio: "ignore" });
  const pool = await plant("");
  const named = recordOf([bystander.pid ?? 0, pool.pid]);
  fs.writeFileSync(join(pool.path, "pool.json"), JSON.stringify(named));
  expect([holdsLock(pool.path, bystander.pid ?? 0), holdsLock(pool.path, pool.pid)]).toEqual([
    false,
    true,
  ]);
  const [record] = readPools(pools).living;
  expect(await stopRecordedPool(record!)).toBe("stopped");
  expect(bystander.exitCode ?? bystander.signalCode).toBe(null);
  bystander.kill("SIGKILL");
});

test("a pool whose processes are out of sight is not said to be stopped", async () => {
  const pool = await plant(recordOf([process.pid]));
  const [record] = readPools(pools).living;
  expect(await stopRecordedPool(record!)).toBe("out of sight");
  await pool.end();
});

test("a place where no pool can be recorded is named", () => {
  const file = join(root, "file");
  fs.writeFileSync(file, "");
  expect(() => makePoolFolder(file)).toThrow(
    expect.objectContaining({ code: "INVALID_VALUE", field: "MOONCAKE_KV_STATE", value: file }),
  );
});
