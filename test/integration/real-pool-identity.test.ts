/**
 * Goal: identities and resets hold in a pool behind a real master as they do in the local one: the master keeps the first identity,
 * an engine that is lost makes the pool unknown until it has answered anew, and a reset removes leased keys too, others' never.
 * Method: embedded runtimes over the real store, which is lost by ending its master and starting it again.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import type { AttachOptions } from "../../src/index.ts";
import type { RunningPool } from "../../src/pool/pool.ts";
import { EmbeddedLoop, KV_CACHE, tokens } from "./support/embedded.ts";
import { startTestPool, testWheel, startTestMaster } from "./support/mooncake-wheel.ts";
import { blockKeys, untilBlocks, writeStore } from "./support/real-pool.ts";

const KEY = "model@mooncake-kv-identity";
const PROMPT = tokens(64, 1);
const TEST_TIMEOUT_MS = 120_000;
let folder: string;
let pool: RunningPool | undefined;
const open: EmbeddedLoop[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "real-pool-identity-"));
  pool = await startTestPool({});
}, TEST_TIMEOUT_MS);
afterEach(async () => {
  for (const loop of open.splice(0)) await loop.attached.stop();
  await pool?.stop();
  pool = undefined;
  rmSync(folder, { recursive: true });
}, TEST_TIMEOUT_MS);

function running(): RunningPool {
  if (pool === undefined) throw new Error("no pool runs");
  return pool;
}

async function joinPool(
  started: RunningPool,
  extra: Readonly<Record<string, unknown>> = {},
  kvCache: Partial<AttachOptions["kvCache"]> = {},
): Promise<EmbeddedLoop> {
  const path = writeStore(folder, started.store, `store-${open.length}`);
  const settings = {
    engine: "mooncake",
    lookup_timeout_ms: 30_000,
    pool_name: undefined,
    ...extra,
  };
  const loop = await EmbeddedLoop.attach(settings, {
    kvCache: { ...KV_CACHE, ...kvCache },
    environment: { MOONCAKE_CONFIG_PATH: path },
  });
  open.push(loop);
  return loop;
}

/** Somebody with the wheel's own client. */
async function overwriteIdentity({ store }: RunningPool, bytes: number): Promise<void> {
  const program = [
    "import os, sys",
    "from mooncake.store import MooncakeDistributedStore",
    "store = MooncakeDistributedStore()",
    'assert store.setup("127.0.0.1", "P2PHANDSHAKE", 0, 64 << 20, "tcp", "", sys.argv[1]) == 0',
    `assert store.remove("${KEY}", True) == 0`,
    `assert store.put("${KEY}", b"[" * ${bytes}) == 0`,
    "os._exit(0)",
  ].join("\n");
  const { path } = await testWheel();
  await promisify(execFile)(path, ["-c", program, store.master_server_address]);
}

test(
  "the first identity counts; a reset removes what is ours, though it was just looked up",
  { timeout: TEST_TIMEOUT_MS },
  async () => {
    const started = running();
    const first = await joinPool(started);
    expect(first.attached.membership().membership).toBe("open");
    first.computeAndSave("save", PROMPT, () => undefined);
    await untilBlocks(started.master, 4);
    const other = await joinPool(started, {}, { dtype: "bfloat16" });
    expect(other.attached.membership()).toMatchObject({
      membership: "closed",
      differences: [{ field: "bytes.dtype" }],
    });
    const prefixed = await joinPool(started, { cache_prefix: "b" }, { dtype: "bfloat16" });
    expect(prefixed.attached.membership().membership).toBe("open");
    prefixed.computeAndSave("save", PROMPT, () => undefined);
    await untilBlocks(started.master, 8);

    // The lookup leases the keys.
    const { scheduler } = first.attached.connector;
    scheduler.addRequest("look", PROMPT);
    expect(first.match("look")[0]).toBe(48);
    expect(await scheduler.resetStore()).toEqual({ acknowledged: true, removedKeys: 5 });
    const left = await blockKeys(started.master);
    expect(left).toHaveLength(4);
    expect(left.every((key) => key.startsWith("b@model@tp_rank:"))).toBe(true);
  },
);

test(
  "a value of 20 MB under the identity key is not fetched: a newcomer says why, and a member that was open puts its identity back",
  { timeout: TEST_TIMEOUT_MS },
  async () => {
    const started = running();
    const first = await joinPool(started);
    await overwriteIdentity(started, 20 * 2 ** 20);
    const second = await joinPool(started);
    expect(second.attached.membership()).toMatchObject({
      membership: "unknown",
      problem: "the value has 20971520 bytes",
    });
    await first.runtime.membership.checkAnew();
    expect(first.attached.membership().membership).toBe("open");
    await second.runtime.membership.checkAnew();
    expect(second.attached.membership()).toEqual({
      membership: "open",
      differences: [],
      keyDifferences: [],
    });
  },
);

test(
  "a master that is lost makes the pool unknown; one that comes back empty gets the identity anew",
  { timeout: TEST_TIMEOUT_MS },
  async () => {
    const started = running();
    const loop = await joinPool(started);
    const { port, metricsPort } = started.master;
    const membership = (): string => loop.attached.membership().membership;
    await started.master.process.stop();
    // Whoever uses the engine next notices.
    await loop.runtime.membership.check();
    await expect.poll(membership, { timeout: 120_000 }).toBe("unknown");
    const { scheduler } = loop.attached.connector;
    scheduler.addRequest("alone", PROMPT);
    expect(scheduler.getNumNewMatchedTokens("alone", 0)).toEqual([0, false]);
    expect(scheduler.outcome("alone")).toBe("ENGINE_DOWN");

    const master = await startTestMaster({
      mooncakeFolder: (await testWheel()).mooncakeFolder,
      port,
      metricsPort,
    });
    onTestFinished(async () => void (await master.process.stop()));
    await expect.poll(membership, { timeout: 120_000 }).toBe("open");
    // The owner comes back some time after the master.
    await expect.poll(() => master.admin.keys(), { timeout: 120_000 }).toContain(KEY);
  },
);
