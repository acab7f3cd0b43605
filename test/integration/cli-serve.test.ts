/**
 * Goal: whatever is wrong with `mooncake-kv serve` is said on standard error with field, value and remedy; the exit code is not
 * 0 and nothing stays half-started.
 * Method: the compiled command line as a child process, which must end by itself.
 */
import { copyFileSync, cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packageRoot } from "../../src/worker-entry.ts";
import { startChild, startCli, startServe } from "./support/child.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "cli-serve-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

interface Refusal {
  readonly args: readonly string[];
  /** All must appear in what is printed: the field, the value, the remedy. */
  readonly says: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  /** 1: a failure that the text explains (default); 2: the command line itself is wrong. */
  readonly code?: number;
}

async function expectRefusal({ args, says, environment = {}, code = 1 }: Refusal): Promise<void> {
  const child = startCli(["serve", "--port", "0", ...args], environment);
  expect(await child.exit, args.join(" ")).toEqual({ code, signal: null });
  expect(child.output(), "nothing was served").toBe("");
  for (const part of says) expect(child.errors()).toContain(part);
  // A person reads this: no stack of our own code.
  expect(child.errors()).not.toMatch(/\n\s+at /);
}

function transfer(extra: object, more: object = {}): string[] {
  const json = {
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_both",
    kv_connector_extra_config: { engine: "local", ...extra },
    ...more,
  };
  return ["--kv-transfer-config", JSON.stringify(json)];
}

test("option values", async () => {
  const refusals: Refusal[] = [
    { args: ["--port", "99999"], says: ["--port", '"99999"', "from 0 to 65535"] },
    { args: ["--sequences-max", "0"], says: ["--sequences-max", '"0"', "Give for example"] },
    { args: ["--kv-memory", "much"], says: ["--kv-memory", '"much"', "1.5gb"] },
    { args: ["--kv-memory", "64kb"], says: ["--kv-memory", "65536", "--context-tokens-max"] },
    { args: ["--block-size", "x"], says: ["--block-size", '"x"'] },
    { args: ["--log-level", "loud"], says: ["--log-level", "loud", "silent"], code: 2 },
    {
      args: ["--prefix-caching-hash-algo", "md5"],
      says: ["--prefix-caching-hash-algo", "md5", "sha256_cbor"],
      code: 2,
    },
    { args: ["--prot", "1"], says: ["--prot", "--port"], code: 2 },
  ];
  await Promise.all(refusals.map(expectRefusal));
});

test("configuration", async () => {
  const refusals: Refusal[] = [
    { args: ["--kv-transfer-config", "{"], says: ["kv_transfer_config", "JSON"] },
    {
      args: transfer({ lookup_timeout_ms: "soon" }),
      says: ["kv_connector_extra_config.lookup_timeout_ms", '"soon"', "default 1000"],
    },
    {
      args: transfer({ pool_bytes_max: "0" }),
      says: ["kv_connector_extra_config.pool_bytes_max", '"0"', "1gb"],
    },
    { args: transfer({}, { kv_role: "kv_all" }), says: ["kv_role", '"kv_all"', "kv_both"] },
    {
      args: transfer({ engine: "mooncake" }),
      says: ["MOONCAKE_CONFIG_PATH", "JSON"],
    },
    {
      args: transfer({}),
      environment: { VLLM_KV_CACHE_LAYOUT: "hnd" },
      says: ["VLLM_KV_CACHE_LAYOUT", '"hnd"', "HND"],
    },
  ];
  await Promise.all(refusals.map(expectRefusal));
});

test("model files", async () => {
  const noise = join(folder, "noise.gguf");
  const cut = join(folder, "cut.gguf");
  writeFileSync(noise, Buffer.alloc(4096, 7));
  writeFileSync(cut, Buffer.concat([Buffer.from("GGUF"), Buffer.from([3, 0, 0, 0])]));
  const cache = ["--cache", join(folder, "models")];
  const refusals: Refusal[] = [
    { args: ["--model", "gpt"], says: ["model", '"gpt"', "smollm2"] },
    {
      args: ["--model", join(folder, "none.gguf"), ...cache],
      says: ["none.gguf", "Check the path"],
    },
    { args: ["--model", noise, ...cache], says: ["noise.gguf", "GGUF"] },
    { args: ["--model", cut, ...cache], says: ["cut.gguf"] },
  ];
  await Promise.all(refusals.map(expectRefusal));
});

test("a port in use, an address of another machine, a trace file that cannot be written", async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  const port = String((taken.address() as AddressInfo).port);
  try {
    await Promise.all([
      expectRefusal({ args: ["--port", port], says: ["port", port, "in use", "another port"] }),
      expectRefusal({ args: ["--host", "203.0.113.9"], says: ["host", "203.0.113.9"] }),
      expectRefusal({
        args: ["--trace", join(folder, "no", "trace.json")],
        says: ["trace", "no/trace.json", "folder that exists"],
      }),
    ]);
  } finally {
    taken.close();
  }
});

test("is said before a model is looked for", async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
  const port = String((taken.address() as AddressInfo).port);
  const model = ["--model", join(folder, "none.gguf")];
  try {
    await Promise.all([
      expectRefusal({ args: ["--port", port, ...model], says: ["port", port, "in use"] }),
      expectRefusal({
        args: ["--trace", join(folder, "no", "trace.json"), ...model],
        says: ["trace", "no/trace.json", "folder that exists"],
      }),
      expectRefusal({ args: ["--record", "/dev/null/x", ...model], says: ["/dev/null/x"] }),
    ]);
  } finally {
    taken.close();
  }
});

test("settings are looked at before the engine: their mistakes do not hide behind it", async () => {
  const environment = { MOONCAKE_CONFIG_PATH: join(folder, "no-store.json") };
  const [flag, json] = transfer({ engine: undefined, lookup_timeout_ms: "soon" });
  await expectRefusal({
    args: [flag ?? "", json ?? ""],
    says: ["kv_connector_extra_config.lookup_timeout_ms", '"soon"'],
    environment,
  });
});

test("--no-pool serves beside a store configuration that somebody has set", async () => {
  const environment = {
    MOONCAKE_CONFIG_PATH: join(folder, "no-store.json"),
    VLLM_KV_CACHE_LAYOUT: "NHD",
  };
  const { child, url } = await startServe(["--no-pool", "--log-level", "info"], environment);
  expect((await complete(url, "z")).status).toBe(200);
  child.process.kill("SIGTERM");
  expect(await child.exit).toEqual({ code: 0, signal: null });
  expect(child.errors()).not.toContain("private to this process");
  // The graph has one layout, whatever the environment asks for; that is said, and warned of.
  expect(child.errors()).toContain("using BLHNC KV cache layout: the model's graph needs it");
  expect(child.errors()).toMatch(/VLLM_KV_CACHE_LAYOUT: is not followed, the layout is BLHNC/);
});

test("without the addon: what is missing and the command that builds it", async () => {
  const copy = join(folder, "package");
  cpSync(join(packageRoot(), "dist"), join(copy, "dist"), { recursive: true });
  copyFileSync(join(packageRoot(), "package.json"), join(copy, "package.json"));
  symlinkSync(join(packageRoot(), "node_modules"), join(copy, "node_modules"));
  const child = startChild(process.execPath, [join(copy, "dist", "cli", "main.js"), "serve"]);
  expect(await child.exit).toEqual({ code: 1, signal: null });
  expect(child.output()).toBe("");
  for (const part of ["mooncake-kv.node", "prebuilds", "npm run build:native", "g++"])
    expect(child.errors()).toContain(part);
});

async function complete(url: string, prompt: string): Promise<{ status: number; body: string }> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "tiny", prompt, max_tokens: 8, temperature: 0 }),
  });
  return { status: response.status, body: await response.text() };
}

test("a prompt longer than the context is an error of that request; serving goes on", async () => {
  const { child, url } = await startServe(["--context-tokens-max", "64"]);
  const refused = await complete(url, "z".repeat(100));
  expect(refused.status).toBe(400);
  expect(JSON.parse(refused.body)).toMatchObject({
    error: { type: "invalid_request_error", code: "context_length_exceeded" },
  });
  expect(refused.body).toContain("64");
  expect((await complete(url, "z")).status).toBe(200);
  child.process.kill("SIGTERM");
  expect(await child.exit).toEqual({ code: 0, signal: null });
});
