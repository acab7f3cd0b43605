/**
 * Goal: `mooncake-kv pool` starts a real pool in the foreground and detached, says how to join it, shows and empties it, and
 * stops it; standard output is pure JSON where JSON is promised.
 * Method: the compiled command line as child processes, and the wheel's own Python client as another member of the pool.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { PoolRecord } from "../../src/pool/state.ts";
import type { PoolStats } from "../../src/pool/stats.ts";
import { packageRoot } from "../../src/worker-entry.ts";
import { waitUntilGone } from "../../src/pool/process-identity.ts";
import { startCli } from "./support/child.ts";
import type { Child } from "./support/child.ts";
import { putTexts, pythonClient } from "./support/mooncake-wheel.ts";

const GONE_TIMEOUT_MS = 30_000;
const SMALL = ["--port", "0", "--memory", "64MB"];

let folder: string;
let environment: Record<string, string>;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "pool-commands-"));
  environment = { MOONCAKE_KV_STATE: join(folder, "pools") };
});
afterAll(async () => {
  await run(["stop", "--all"]);
  rmSync(folder, { recursive: true });
});

interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

async function run(args: readonly string[], more: Record<string, string> = {}): Promise<Ended> {
  const child = startCli(["pool", ...args], { ...environment, ...more });
  const { code } = await child.exit;
  return { code, output: child.output(), errors: child.errors() };
}

type Started = Pick<
  PoolRecord,
  "store" | "keeper" | "processes" | "port" | "metricsPort" | "segments" | "logFolder"
> & {
  readonly configPath: string;
  readonly environment: Readonly<Record<string, string>>;
};

async function startDetached(args: readonly string[] = []): Promise<Started> {
  const ended = await run(["start", ...SMALL, "--detach", "--json", ...args]);
  expect(ended.code, ended.errors).toBe(0);
  return JSON.parse(ended.output) as Started;
}

async function startForeground(
  args: readonly string[],
): Promise<{ child: Child; started: Started }> {
  const child = startCli(["pool", "start", ...SMALL, "--json", ...args], environment);
  const [line] = await child.printed(/^\{.*\}\n/);
  return { child, started: JSON.parse(line) as Started };
}

test("in the foreground: the store's JSON alone on standard output, what to export on standard error, an end by signal", async () => {
  const child = startCli(["pool", "start", ...SMALL, "--owner"], environment);
  await child.printed(/\n\}\n/);
  const store: unknown = JSON.parse(child.output());
  expect(store).toMatchObject({
    mode: "standalone-store",
    global_segment_size: 0,
    protocol: "tcp",
  });
  child.process.kill("SIGINT");
  expect(await child.exit).toEqual({ code: 0, signal: null });
  const [, path = ""] = /export MOONCAKE_CONFIG_PATH=(\S+)/.exec(child.errors()) ?? [];
  expect(child.errors()).toMatch(/export MOONCAKE_PREFERRED_SEGMENT=127\.0\.0\.1:\d+/);
  expect(path.startsWith(folder)).toBe(true);
  expect(existsSync(path), "its files go with the pool").toBe(false);
});

test("the file that is exported is what vLLM and we read, and --config writes it where it is wanted", async () => {
  const config = join(folder, "wanted.json");
  const { child, started } = await startForeground(["--config", config]);
  expect(JSON.parse(readFileSync(config, "utf8"))).toEqual(started.store);
  expect(started.environment).toEqual({ MOONCAKE_CONFIG_PATH: config });
  const stats = await run(["stats", "--json"], { MOONCAKE_CONFIG_PATH: config });
  expect(JSON.parse(stats.output)).toMatchObject({
    master: started.store.master_server_address,
    keys: 0,
  });
  child.process.kill("SIGTERM");
  expect(await child.exit).toEqual({ code: 0, signal: null });
  expect(await waitUntilGone([started.keeper, ...started.processes], 0)).toBe(true);
});

test("detached: it outlives the command, is found without being named, and `pool stop` ends all of it", async () => {
  const started = await startDetached(["--owner"]);
  expect(started.processes.map(({ name }) => name)).toEqual(["mooncake_master", "owner"]);
  const stats = await run(["stats"]);
  expect(stats.output).toContain(started.segments[0]);
  const stopped = await run(["stop", "--json"]);
  expect(JSON.parse(stopped.output)).toEqual({ stopped: [started.port] });
  expect(await waitUntilGone([started.keeper, ...started.processes], GONE_TIMEOUT_MS)).toBe(true);
  expect(existsSync(started.logFolder)).toBe(false);
  expect(JSON.parse((await run(["stop", "--json"])).output)).toEqual({ stopped: [] });
});

test("a keeper that was killed leaves processes; `pool stop` ends them by their recorded pids", async () => {
  const started = await startDetached();
  process.kill(started.keeper.pid, "SIGKILL");
  expect(await waitUntilGone([started.keeper], GONE_TIMEOUT_MS)).toBe(true);
  const stopped = await run(["stop", "--port", String(started.port), "--json"]);
  expect(JSON.parse(stopped.output)).toEqual({ stopped: [started.port] });
  expect(await waitUntilGone(started.processes, 0)).toBe(true);
  expect(existsSync(started.logFolder), "nor files").toBe(false);
});

test("from another PID namespace a pool is found, and nothing of it is removed", async () => {
  const started = await startDetached(["--offload", "--staging", "64MB"]);
  const ssd = join(started.logFolder, "..", "ssd");
  expect(existsSync(ssd)).toBe(true);
  const apart = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
  const command = [process.execPath, join(packageRoot(), "dist", "cli", "main.js"), "pool"];
  const options = { env: { ...process.env, ...environment } };
  const stats = spawnSync("unshare", [...apart, ...command, "stats", "--json"], options);
  expect(stats.stderr.toString()).toBe("");
  expect(JSON.parse(stats.stdout.toString())).toMatchObject({
    master: started.store.master_server_address,
  });
  const stop = spawnSync("unshare", [...apart, ...command, "stop"], options);
  expect([stop.status, stop.stderr.toString()]).toEqual([
    1,
    expect.stringContaining("none of its processes can be seen from here"),
  ]);
  expect(existsSync(ssd)).toBe(true);
  expect(JSON.parse((await run(["stop", "--json"])).output)).toEqual({ stopped: [started.port] });
  expect(existsSync(ssd)).toBe(false);
});

test("a broken record is named on standard error, and the others work", async () => {
  const broken = join(folder, "pools", "50051");
  mkdirSync(broken, { recursive: true });
  writeFileSync(join(broken, "pool.json"), '{"version":1}');
  const started = await startDetached();
  const stats = await run(["stats", "--json"]);
  expect(stats.errors).toContain(`${broken} is left out`);
  expect(JSON.parse(stats.output)).toMatchObject({ master: started.store.master_server_address });
  expect(JSON.parse((await run(["stop", "--json"])).output)).toEqual({ stopped: [started.port] });
  expect(existsSync(broken)).toBe(true);
  rmSync(broken, { recursive: true });
});

test("a master that dies ends the command with its last words", async () => {
  const { child, started } = await startForeground([]);
  process.kill(started.processes[0]?.pid ?? 0, "SIGKILL");
  expect(await child.exit).toEqual({ code: 1, signal: null });
  expect(child.errors()).toContain('mooncake_master: ended by itself (got "signal SIGKILL")');
});

// A dozen processes one after the other: the time is for a machine that does much else.
test(
  "statistics count keys, use and identities; purge removes one deployment's keys and nothing else",
  { timeout: 600_000 },
  async () => {
    const started = await startDetached(["--owner", "--master-flag", "default_kv_lease_ttl=10m"]);
    const store = started.store;
    const long = "x".repeat(4096);
    await putTexts(store, {
      "team.a@model@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@00": long,
      "team.a@model@mooncake-kv-identity": '{"dtype":"float16"}',
      "team.a@other@store_tp:2@store_pp:1@store_format:tp_shared_lbhnc@tp_rank:1@pcp0@dcp0@pp_rank:0@group:0@00":
        long,
      // Of deployments without a prefix whose model is named so.
      "team.a@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@00": long,
      "team.a@store_tp:2@store_pp:1@store_format:tp_shared_lbhnc@tp_rank:1@pcp0@dcp0@pp_rank:0@group:0@00":
        long,
      "team.a@mooncake-kv-identity": "no JSON",
      "team.a@b@model@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@00": long,
      "teamXa@model@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@00": long,
      "not-team.a@model@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@00": long,
      "model@mooncake-kv-identity": "no JSON",
      "deep@mooncake-kv-identity": "[".repeat(3000) + "]".repeat(3000),
      "large@mooncake-kv-identity": "[".repeat(100_000),
    });
    const before = JSON.parse((await run(["stats", "--json"])).output) as PoolStats;
    expect(before).toMatchObject({
      keys: 12,
      keysByFirstPart: { "team.a": 7, teamXa: 1, "not-team.a": 1, model: 1, deep: 1, large: 1 },
      identitiesProblem: null,
      memory: { bytesMax: 64 * 1024 ** 2 },
    });
    expect(before.memory.bytesUsed).toBeGreaterThan(3 * 4096);
    expect(before.identities.toSorted((left, right) => left.key.localeCompare(right.key))).toEqual([
      { key: "deep@mooncake-kv-identity", value: "[".repeat(200) },
      { key: "large@mooncake-kv-identity", value: "100000 bytes: no identity" },
      { key: "model@mooncake-kv-identity", value: "no JSON" },
      { key: "team.a@model@mooncake-kv-identity", value: { dtype: "float16" } },
      { key: "team.a@mooncake-kv-identity", value: "no JSON" },
    ]);

    const asked = await run(["purge", "--prefix", "team.a"]);
    expect(asked, "there is no terminal to ask").toMatchObject({ code: 1, output: "" });
    expect(asked.errors).toContain("--yes");

    // Reading the identities has leased them, so a plain purge leaves that one key, and says so.
    const plain = await run(["purge", "--prefix", "team.a", "--yes", "--json"]);
    expect(JSON.parse(plain.output)).toEqual({ prefix: "team.a", removed: 2, left: 1 });
    expect(plain.errors).toBe("");
    const forced = await run(["purge", "--prefix", "team.a", "--yes", "--force"]);
    expect(forced.output).toContain(
      'removed 1 keys of the deployments whose cache_prefix is "team.a"',
    );
    expect(forced.output).toContain('left alone: keys of the prefixes "team.a@b"');
    expect(forced.errors).toContain("members may be reading");
    const after = JSON.parse((await run(["stats", "--json"])).output) as PoolStats;
    expect(after.keysByFirstPart).toEqual({
      "team.a": 4,
      teamXa: 1,
      "not-team.a": 1,
      model: 1,
      deep: 1,
      large: 1,
    });
    const kept =
      'answer = store.get("teamXa@model@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@00").decode()';
    expect(await pythonClient(store, kept)).toBe(long);

    const all = await run(["purge", "--all", "--force", "--yes", "--json"]);
    expect(JSON.parse(all.output)).toEqual({ prefix: null, removed: 9, left: 0 });
    await run(["stop", "--port", String(started.port)]);
  },
);

test("what cannot be meant is refused, with the remedy", { timeout: 600_000 }, async () => {
  const refusals: [args: string[], says: string[]][] = [
    [
      ["purge", "--yes"],
      ["--prefix", "--all --force"],
    ],
    [
      ["purge", "--prefix", "", "--yes"],
      ["--prefix", "--all --force"],
    ],
    [
      ["purge", "--all", "--yes"],
      ["--prefix", "--all --force"],
    ],
    [
      ["purge", "--all", "--prefix", "a"],
      ["--all", "--prefix"],
    ],
    [["stats"], ["--config", "none was started on this machine"]],
    [["stats", "--metrics", "nowhere"], ["--config"]],
    [
      ["stop", "--port", "9"],
      ["--port", "None runs"],
    ],
    [
      ["start", "--protocol", "carrier-pigeon"],
      ["--protocol", "Use tcp or rdma"],
    ],
    [
      ["start", "--memory", "much"],
      ["--memory", '"much"'],
    ],
    [
      ["start", "--master-flag", "x"],
      ["--master-flag", "name=value"],
    ],
    [
      ["start", ...SMALL, "--master-flag", "no_such=1"],
      ["mooncake_master", "unknown command line flag"],
    ],
    [
      ["start", ...SMALL, "--detach", "--master-flag", "no_such=1"],
      ["mooncake_master", "unknown command line flag"],
    ],
  ];
  for (const [args, says] of refusals) {
    const { code, output, errors } = await run(args);
    expect(code, args.join(" ")).toBe(1);
    expect(output, args.join(" ")).toBe("");
    for (const part of says) expect(errors).toContain(part);
    expect(errors, "no stack of our own code").not.toMatch(/\n\s+at /);
  }
});

test("without a master nothing hangs: statistics and purge say who did not answer", async () => {
  const { child, started } = await startForeground([]);
  const config = join(folder, "gone.json");
  child.process.kill("SIGTERM");
  await child.exit;
  writeFileSync(config, JSON.stringify(started.store));
  const stats = await run(["stats", "--config", config]);
  expect(stats).toMatchObject({ code: 1, output: "" });
  expect(stats.errors).toContain("nobody answers there");
  const purge = await run(["purge", "--prefix", "a", "--yes", "--config", config]);
  expect(purge).toMatchObject({ code: 1, output: "" });
  expect(purge.errors).toContain("the master cannot be reached");
});
