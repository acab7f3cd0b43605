/**
 * Goal: an answer that cannot be finished never looks finished: HTTP 500, or an error event in a stream, for a shutdown whose time
 * is over, an actor that is given up and a load that fails under kv_load_failure_policy "fail". Clients that left hold nothing up.
 * Method: the command line as a child process and real signals; the whole server in this process where an actor or a pooled block
 * has to be broken. Time limits are generous where waiting for them would be the fault.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { spawn } from "node:child_process";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ACTOR_SCHEDULER } from "../../src/actors/messages.ts";
import { readEnvironment } from "../../src/config/environment.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";
import { packageRoot } from "../../src/worker-entry.ts";
import { startChild, startCli, startServe } from "./support/child.ts";
import { settled } from "./support/gauges.ts";
import { clearPool, dropLocalCache, flipBit, poolKeys } from "./support/pool.ts";
import { freshPoolName, startServing } from "./support/serving.ts";

const LONG = 900;
const HTTP = { host: "127.0.0.1", port: 0, debugRoutes: false };

interface End {
  readonly status: number;
  /** Of the error in the body, or in the stream's last event before [DONE]. */
  readonly code: string | null;
  readonly finishReason: string | null;
}

interface Body {
  readonly error?: { readonly code: string };
  readonly choices?: readonly { readonly finish_reason: string | null }[];
}

async function ask(url: string, more: object): Promise<End> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "tiny", prompt: "x", ignore_eos: true, ...more }),
  });
  const text = await response.text();
  const events = text.split("\n\n").filter((event) => event !== "");
  if (events.length > 1) expect(events.at(-1)).toBe("data: [DONE]");
  const last = events.length > 1 ? (events.at(-2) ?? "").slice("data: ".length) : text;
  const { error, choices } = JSON.parse(last) as Body;
  const finishReason = choices?.[0]?.finish_reason ?? null;
  return { status: response.status, code: error?.code ?? null, finishReason };
}

function limits(shutdownTimeoutMs: number): string[] {
  const config = {
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_both",
    kv_connector_extra_config: { engine: "local", shutdown_timeout_ms: shutdownTimeoutMs },
  };
  return ["--kv-transfer-config", JSON.stringify(config)];
}

async function running(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const [, count] = /^mooncake_kv_request_slots_in_use\{.*\} (\d+)$/m.exec(text) ?? [];
  return Number(count);
}

test("SIGTERM: what is not complete when the time is over ends with an error", async () => {
  const { child, url } = await startServe(limits(400));
  const asked = Array.from({ length: 32 }, (_, index) =>
    ask(url, { max_tokens: LONG, stream: index % 2 === 0 }),
  );
  await expect.poll(() => running(url), { interval: 5, timeout: 20_000 }).toBe(32);
  child.process.kill("SIGTERM");
  const ends = await Promise.all(asked);
  expect(await child.exit).toEqual({ code: 0, signal: null });
  const cut = ends.filter(({ finishReason }) => finishReason !== "length");
  expect(cut.length).toBeGreaterThan(0);
  for (const { code, finishReason, status } of cut) {
    expect([code, finishReason]).toEqual(["shutting_down", null]);
    expect([200, 500]).toContain(status);
  }
  expect(cut.map(({ status }) => status)).toContain(500);
});

test("SIGTERM after clients have left is waited out by nobody", async () => {
  const { child, url } = await startServe(limits(3_600_000));
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.on("error", () => undefined);
  const body = (stream: boolean): string =>
    JSON.stringify({ prompt: "x", max_tokens: LONG, ignore_eos: true, stream });
  const requests = Array.from({ length: 40 }, (_, index) => {
    const text = body(index % 2 === 0);
    return `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
  });
  socket.write(requests.join(""));
  await new Promise((resolve) => socket.once("data", resolve));
  socket.resetAndDestroy();
  child.process.kill("SIGTERM");
  expect(await child.exit).toEqual({ code: 0, signal: null });
});

test("SIGTERM as soon as the server says that it serves is an orderly stop", async () => {
  const child = startCli(["serve", "--port", "0", "--log-level", "warn"]);
  child.process.stdout?.once("data", () => child.process.kill("SIGTERM"));
  expect(await child.exit).toEqual({ code: 0, signal: null });
});

test("a trace file that cannot be written further is told at once; the server goes on", async () => {
  const folder = mkdtempSync(join(tmpdir(), "trace-full-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "trace.json");
  const main = join(packageRoot(), "dist", "cli", "main.js");
  // A limit for the size of files stands for a disk without room: the signal that goes with it is ignored.
  const child = startChild("sh", [
    "-c",
    `trap '' XFSZ; exec "$0" "$@"`,
    process.execPath,
    main,
    "serve",
    "--port",
    "0",
    "--log-level",
    "warn",
    "--trace",
    file,
  ]);
  const [, url = ""] = await child.printed(/serves \S+ on (http:\S+)\n/);
  const limit = spawn("prlimit", ["--pid", String(child.process.pid), "--fsize=65536:65536"]);
  expect(await new Promise((resolve) => limit.once("close", resolve))).toBe(0);
  await expect
    .poll(
      async () => {
        expect(await ask(url, { max_tokens: 100 })).toMatchObject({ finishReason: "length" });
        return child.errors();
      },
      { timeout: 40_000 },
    )
    .toContain("the trace ends here: its file cannot be written further");
  expect(await ask(url, { max_tokens: 2 })).toMatchObject({ finishReason: "length" });
  child.process.kill("SIGTERM");
  expect(await child.exit).toEqual({ code: 1, signal: null });
  expect(child.errors()).toMatch(/\nmooncake-kv: trace: this file could not be written to its end/);
  expect(statSync(file).size).toBeLessThanOrEqual(65_536);
});

test("an actor that is given up: requests end with 500, or an error event", async () => {
  const restartLimits = { firstDelayMs: 1, delayMsMax: 4, quietMs: 600_000, deathsMax: 1 };
  const { application } = await startServing({}, { http: HTTP, restartLimits });
  const { supervisor } = application.runtime;
  const url = application.server?.url ?? "";
  const asked = [false, true].map((stream) => ask(url, { max_tokens: LONG, stream }));
  await expect.poll(() => running(url), { interval: 1 }).toBe(2);
  supervisor.on("restarted", (actor) => {
    if (actor === ACTOR_SCHEDULER) supervisor.fail(actor);
  });
  supervisor.fail(ACTOR_SCHEDULER);
  await application.failed;
  for (const { code, finishReason } of await Promise.all(asked))
    expect([code, finishReason]).toEqual(["generation_failed", null]);
  await application.stop();
});

test("a load that fails under kv_load_failure_policy fail: 500, streamed or not", async () => {
  const { config: connector } = parseTransferConfig(
    {
      kv_connector: "MooncakeStoreConnector",
      kv_role: "kv_both",
      kv_load_failure_policy: "fail",
      kv_connector_extra_config: {
        engine: "local",
        lookup_async: true,
        pool_name: freshPoolName(),
        pool_verify_checksums: true,
      },
    },
    readEnvironment({}),
  );
  const { application } = await startServing({}, { http: HTTP, connector });
  const url = application.server?.url ?? "";
  for (const stream of [false, true]) {
    const prompt = `A block that was saved well and rots in the pool (${stream}). `.repeat(4);
    expect((await ask(url, { prompt, max_tokens: 2 })).finishReason).toBe("length");
    await settled(application);
    await dropLocalCache(application);
    const keys = poolKeys(application);
    expect(keys.length).toBeGreaterThan(0);
    for (const key of keys) expect(flipBit(application, key, 14)).toBe(true);
    const end = await ask(url, { prompt, max_tokens: 2, stream });
    expect(end).toEqual({ status: 500, code: "generation_failed", finishReason: null });
    clearPool(application);
  }
  expect(await application.stop()).toBe(0);
});
