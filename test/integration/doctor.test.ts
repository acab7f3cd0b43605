/**
 * Goal: `mooncake-kv doctor` tells of this very machine and of a real pool what is there, and its exit code is 1 exactly when
 * the configured engine lacks something.
 * Method: the compiled command line as a child process, with a real master and owner that are then stopped.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Check } from "../../src/cli/doctor/check.ts";
import type { RunningPool } from "../../src/pool/pool.ts";
import { startCli } from "./support/child.ts";
import { startTestPool, testWheel } from "./support/mooncake-wheel.ts";

let folder: string;
let config: string;
let python: string;
let pool: RunningPool;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "doctor-"));
  config = join(folder, "store.json");
  python = (await testWheel()).path;
  pool = await startTestPool();
  writeFileSync(config, JSON.stringify(pool.store));
});
afterAll(async () => {
  await pool.stop();
  rmSync(folder, { recursive: true });
});

interface Answer {
  readonly code: number | null;
  readonly engine: string;
  readonly healthy: boolean;
  readonly checks: readonly Check[];
}

async function doctor(
  args: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<Answer> {
  const child = startCli(["doctor", "--json", ...args], {
    MOONCAKE_KV_STATE: folder,
    ...environment,
  });
  const { code } = await child.exit;
  expect(child.errors()).toBe("");
  const answer = JSON.parse(child.output()) as Omit<Answer, "code">;
  expect(answer.healthy).toBe(code === 0);
  return { code, ...answer };
}

function find(answer: Answer, name: string): Check | undefined {
  return answer.checks.find((check) => check.name === name);
}

test("with a pool that runs the mooncake engine has what it needs: wheel, libraries, master, owner", async () => {
  const segment = pool.owners[0]?.segment ?? "";
  const metrics = ["--metrics", `127.0.0.1:${pool.master.metricsPort}`];
  const environment = {
    MOONCAKE_CONFIG_PATH: config,
    MOONCAKE_PREFERRED_SEGMENT: segment,
    MOONCAKE_PYTHON: python,
  };
  const answer = await doctor(metrics, environment);
  expect(answer).toMatchObject({ code: 0, engine: "mooncake" });
  expect(find(answer, "python")).toMatchObject({
    status: "ok",
    found: expect.stringContaining(python) as string,
  });
  expect(find(answer, "wheel's libraries")).toMatchObject({ status: "ok" });
  expect(find(answer, "master")).toMatchObject({ status: "ok" });
  expect(find(answer, "owner")).toMatchObject({
    status: "ok",
    found: expect.stringContaining(segment) as string,
  });

  const other = await doctor(metrics, {
    ...environment,
    MOONCAKE_PREFERRED_SEGMENT: "127.0.0.1:1",
  });
  expect(other.code).toBe(1);
  expect(find(other, "owner")).toMatchObject({
    status: "fail",
    fix: expect.stringContaining(segment) as string,
  });
});

test("every fault is told at once: settings, interpreter, master, one line each, also in words", async () => {
  const nobody = join(folder, "nobody.json");
  // Port 1 is taken by nobody: only root may, and nothing does.
  writeFileSync(nobody, JSON.stringify({ ...pool.store, master_server_address: "127.0.0.1:1" }));
  const environment = {
    MOONCAKE_CONFIG_PATH: nobody,
    MOONCAKE_PYTHON: join(folder, "no-python"),
    VLLM_MOONCAKE_BOOTSTRAP_PORT: "many",
    MOONCAKE_KV_STATE: folder,
  };
  const answer = await doctor([], environment);
  expect(answer.code).toBe(1);
  const failed = answer.checks.filter(({ status }) => status === "fail");
  expect(failed.map(({ name }) => name)).toEqual(["settings", "python", "master"]);
  const child = startCli(["doctor"], environment);
  expect(await child.exit).toEqual({ code: 1, signal: null });
  for (const { found, fix } of failed) {
    expect(child.output()).toContain(found);
    expect(child.output()).toContain(`fix: ${fix}`);
  }
  expect(child.output()).toContain("The mooncake engine lacks 3 of what it needs");
});

test("a store's JSON that is wrong is told once, by the check that read it", async () => {
  const wrong = join(folder, "wrong.json");
  writeFileSync(wrong, JSON.stringify({ ...pool.store, mode: "shared" }));
  const answer = await doctor([], { MOONCAKE_CONFIG_PATH: wrong, MOONCAKE_PYTHON: python });
  const failed = answer.checks.filter(({ status }) => status === "fail");
  expect(failed).toMatchObject([
    { name: "store JSON", found: expect.stringContaining('"shared"') as string },
  ]);
});

test("the local engine needs none of it", async () => {
  const settings = JSON.stringify({
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_both",
    kv_connector_extra_config: { engine: "local" },
  });
  const environment = { MOONCAKE_PYTHON: join(folder, "no-python") };
  const answer = await doctor(["--kv-transfer-config", settings], environment);
  expect(answer).toMatchObject({ code: 0, engine: "local" });
  expect(find(answer, "python")).toMatchObject({ status: "warn" });
});

test.each([
  [64, ["doctor"], /64 may be open at a time, and at least 128 are needed.*ulimit -n 65536/],
  [64, ["serve"], /64 may be open at a time, and at least 128 are needed.*ulimit -n 65536/],
  [160, ["serve"], /160 may be open at a time, and at least 256 are needed.*ulimit -n 65536/],
  [160, ["doctor"], /fail +open files +160; 256 are needed\n +fix: ulimit -n 65536/],
])("with ulimit -n %d %s names the limit and its remedy", (limit, args, text) => {
  const main = new URL("../../dist/cli/main.js", import.meta.url).pathname;
  const script = 'ulimit -n "$1"; shift; exec "$@"';
  const command = ["-c", script, "sh", String(limit), process.execPath, main, ...args];
  const { status, stdout, stderr } = spawnSync("sh", command, { encoding: "utf8" });
  expect(`${stdout}${stderr}`).toMatch(text);
  expect(stderr).not.toMatch(/^ +at /m);
  expect(status).toBe(1);
});
