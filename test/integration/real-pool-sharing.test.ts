/**
 * Goal: two processes share a prefix through a real master, whether the members give the memory or an outside owner does; what
 * comes from the pool changes no bit of the answer; the settings that say where replicas go and who asks are honoured.
 * Method: `mooncake-kv serve` twice on the generated model against a real master; usage, metrics and logits hashes are compared,
 * and the master's own interface tells of segments and replicas.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { PoolOptions, RunningPool } from "../../src/pool/pool.ts";
import { startTestPool } from "./support/mooncake-wheel.ts";
import {
  askServer,
  blockKeys,
  scrapedSum,
  segmentsOf,
  startPoolServer,
  stopPoolServer,
  untilBlocks,
  writeStore,
} from "./support/real-pool.ts";
import type { PoolServer } from "./support/real-pool.ts";

const BLOCK = 16;
/** The longest that the store takes to say goodbye on two busy cores, and a margin. */
const TEST_TIMEOUT_MS = 120_000;

let folder: string;
let pool: RunningPool | undefined;
let servers: PoolServer[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "real-pool-sharing-"));
});
afterEach(async () => {
  for (const { child } of servers) {
    child.process.kill("SIGKILL");
    await child.exit;
  }
  servers = [];
  await pool?.stop();
  pool = undefined;
  rmSync(folder, { recursive: true });
});

const sparrows = (count: number, from = 0): string =>
  Array.from({ length: count }, (_, index) => `${(index + from) * 7919} sparrows`).join(", ");

/** A pool, and two servers in it, each with variables of its own. */
async function startTwo(
  options: Partial<PoolOptions>,
  environments: (started: RunningPool) => readonly [Variables, Variables],
): Promise<{ started: RunningPool; first: string; second: string }> {
  const started = await startTestPool(options);
  pool = started;
  const storePath = writeStore(folder, started.store);
  const urls = await Promise.all(
    environments(started).map(async (each) => {
      const server = await startPoolServer(storePath, each);
      servers.push(server);
      return server.url;
    }),
  );
  const [first = "", second = ""] = urls;
  return { started, first, second };
}
type Variables = Readonly<Record<string, string>>;

/** A prompt on the first server, then on the second: there only what is no whole block is computed, with the same bits. */
async function expectShared(
  started: RunningPool,
  first: string,
  second: string,
): Promise<string[]> {
  const prompt = sparrows(14);
  const computed = await askServer(first, prompt);
  expect(computed).toMatchObject({ cached: 0, poolTokens: 0, outcome: "MISS" });
  const tokens = computed.computed;
  const whole = Math.floor(tokens / BLOCK);
  expect(whole).toBeGreaterThan(4);
  const keys = await untilBlocks(started.master, whole);
  expect(keys).toHaveLength(whole);

  const shared = await askServer(second, prompt);
  const cached = whole * BLOCK;
  const tail = { cached, poolTokens: cached, computed: tokens - cached, outcome: "HIT" };
  expect(shared).toEqual({ ...computed, ...tail });
  expect(shared.logitsHash).toMatch(/^[0-9a-f]{16}$/);
  expect(await scrapedSum(second, "mooncake_kv_loaded_keys_total")).toBe(whole);
  expect(await scrapedSum(first, "mooncake_kv_loaded_keys_total")).toBe(0);

  // The other way round, a prompt that only begins alike: what the second has computed is the first's too.
  const longer = `${prompt}, ${sparrows(10, 100)}`;
  const grown = await askServer(second, longer);
  await untilBlocks(started.master, Math.floor((grown.cached + grown.computed) / BLOCK));
  const back = await askServer(first, longer);
  expect(back.logitsHash).toBe(grown.logitsHash);
  expect(back.logprobs).toEqual(grown.logprobs);
  expect(back.cached - grown.cached).toBeGreaterThan(4 * BLOCK);
  expect(back.computed).toBeLessThanOrEqual(BLOCK);
  return await blockKeys(started.master);
}

test(
  "embedded: each member gives memory under its requester name, which the segments of replicas show",
  async () => {
    const [one, two] = ["127.0.0.21", "127.0.0.22"];
    const { started, first, second } = await startTwo(
      { owners: 0, memoryBytes: 64 * 2 ** 20 },
      () => [
        { MOONCAKE_REQUESTER_LOCAL_HOSTNAME: one },
        { MOONCAKE_REQUESTER_LOCAL_HOSTNAME: two },
      ],
    );
    const members = await started.master.admin.segments();
    const hosts = members.map(({ name }) => name.split(":")[0]);
    expect(new Set(hosts)).toEqual(new Set([one, two]));
    expect(members.map(({ bytesMax }) => bytesMax)).toEqual([64 * 2 ** 20, 64 * 2 ** 20]);
    const keys = await expectShared(started, first, second);
    const holding = await segmentsOf(started.master, keys);
    expect(members.map(({ name }) => name)).toEqual(expect.arrayContaining(holding));
    expect(await Promise.all(servers.map(stopPoolServer))).toEqual([
      { code: 0, signal: null },
      { code: 0, signal: null },
    ]);
    expect(await started.master.admin.segments()).toEqual([]);
  },
  TEST_TIMEOUT_MS,
);

test(
  "standalone-store: owners outside hold the memory; MOONCAKE_PREFERRED_SEGMENT says which of them",
  async () => {
    const { started, first, second } = await startTwo({ owners: 2 }, ({ owners }) => [
      { MOONCAKE_PREFERRED_SEGMENT: owners[1]?.segment ?? "" },
      { MOONCAKE_PREFERRED_SEGMENT: owners[1]?.segment ?? "" },
    ]);
    const keys = await expectShared(started, first, second);
    expect(await segmentsOf(started.master, keys)).toEqual([started.owners[1]?.segment]);
    // Members gave nothing: the two owners are all there is.
    expect(await started.master.admin.segments()).toHaveLength(2);
  },
  TEST_TIMEOUT_MS,
);
