/**
 * Goal: an orderly stop ends what runs, within its time limit, and leaves nothing: no thread, no port, no process.
 * Method: the whole runtime in this process, stopped in the middle of answers, just after deaths of its actors, and next to
 * another runtime on the same pool; children that must end by themselves or after SIGTERM.
 */
import { join } from "node:path";
import { expect, test } from "vitest";
import { ACTOR_NAMES, FINISH_ABORTED, FINISH_LENGTH } from "../../src/actors/messages.ts";
import { packageRoot } from "../../src/worker-entry.ts";
import { startChild, startServe } from "./support/child.ts";
import { MORTALS } from "./support/deaths.ts";
import { generate, promptOf, startGenerating } from "./support/generate.ts";
import { settled } from "./support/gauges.ts";
import { freshPoolName, startServing } from "./support/serving.ts";

const LONG = 900;

test("stop in the middle of answers: all end, most of them cut short", async () => {
  const { application } = await startServing();
  let first: () => void = () => undefined;
  const started = new Promise<void>((resolve) => (first = resolve));
  const answers = Array.from(
    { length: 32 },
    (_, index) =>
      startGenerating(application, promptOf(application, 40, index), { maxTokens: LONG }, first)
        .answer,
  );
  await started;
  expect(await application.stop()).toBe(0);
  const ended = await Promise.all(answers);
  expect(new Set(ended.map(({ summary }) => summary.reason))).toContain(FINISH_ABORTED);
  expect(application.runtime.healthy()).toBe(false);
  // All callers get one result.
  expect(await application.stop()).toBe(0);
  expect(() => generate(application, promptOf(application, 10))).toThrow("CLOSED");
});

async function post(url: string, maxTokens: number): Promise<string> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "tiny", prompt: "x", max_tokens: maxTokens, ignore_eos: true }),
  });
  const body = (await response.json()) as {
    choices?: { finish_reason: string }[];
    error?: { code: string };
  };
  return body.choices?.[0]?.finish_reason ?? `${response.status} ${body.error?.code}`;
}

test("with HTTP: running answers are awaited, new requests refused, the port closed", async () => {
  const http = { host: "127.0.0.1", port: 0, debugRoutes: false };
  const { application } = await startServing({ shutdown_timeout_ms: 20_000 }, { http });
  const url = application.server?.url ?? "";
  const answers = [post(url, 300), post(url, 2)];
  await expect.poll(() => application.frontEnd.liveRequests, { interval: 1 }).toBe(2);
  const stopped = application.stop();
  expect(await Promise.all(answers)).toEqual(["length", "length"]);
  expect(await stopped).toBe(0);
  await expect(fetch(`${url}/health`)).rejects.toThrow();
});

test("with HTTP: what does not end within the time limit is answered with an error", async () => {
  const http = { host: "127.0.0.1", port: 0, debugRoutes: false };
  const { application } = await startServing({ shutdown_timeout_ms: 400 }, { http });
  const url = application.server?.url ?? "";
  const answers = Array.from({ length: 32 }, () => post(url, LONG));
  await expect.poll(() => application.frontEnd.liveRequests, { interval: 1 }).toBe(32);
  expect(await application.stop()).toBe(0);
  expect(await Promise.all(answers)).toContain("500 shutting_down");
  await expect(fetch(`${url}/health`)).rejects.toThrow();
});

test.each(MORTALS.map((actor) => [ACTOR_NAMES[actor], actor] as const))(
  "stop just after the death of the %s actor",
  async (_name, actor) => {
    const { application } = await startServing({ shutdown_timeout_ms: 1000 });
    const { supervisor } = application.runtime;
    let first: () => void = () => undefined;
    const started = new Promise<void>((resolve) => (first = resolve));
    const answers = Array.from(
      { length: 12 },
      (_, index) =>
        startGenerating(application, promptOf(application, 200, index), { maxTokens: 200 }, first)
          .answer,
    );
    await started;
    const died = supervisor.kill(actor);
    await application.stop();
    await died;
    for (const { summary } of await Promise.all(answers))
      expect([FINISH_ABORTED, FINISH_LENGTH]).toContain(summary.reason);
    for (const mortal of MORTALS) expect(supervisor.running(mortal)).toBe(false);
  },
);

test("two runtimes of one process that name the same pool share its blocks; each stops alone", async () => {
  const pool = { pool_name: freshPoolName() };
  const { application: first } = await startServing(pool);
  const { application: second } = await startServing(pool);
  const prompt = promptOf(first, 200);
  const cold = await generate(first, prompt);
  await settled(first);
  expect(await first.stop()).toBe(0);
  const warm = await generate(second, prompt);
  expect(warm.summary).toMatchObject({ localTokens: 0, poolTokens: 192 });
  expect(warm.hashes).toEqual(cold.hashes);
  const { application: third } = await startServing(pool);
  expect((await generate(third, prompt)).hashes).toEqual(cold.hashes);
  expect(await second.stop()).toBe(0);
  expect((await generate(third, prompt)).summary.localTokens).toBe(192);
  expect(await third.stop()).toBe(0);
});

test("a second runtime that gives the pool another size is refused, and leaves nothing", async () => {
  const pool = { pool_name: freshPoolName() };
  const { application, native } = await startServing(pool);
  await expect(startServing({ ...pool, pool_bytes_max: "8mb" })).rejects.toMatchObject({
    code: "INVALID_VALUE",
  });
  expect((await generate(application, promptOf(application, 40))).tokens).toHaveLength(12);
  expect(native.engineStatistics(application.runtime.engineId).batchesInFlight).toBe(0);
  expect(await application.stop()).toBe(0);
});

test("the process ends by itself after stop", async () => {
  const child = startChild(process.execPath, [
    join(packageRoot(), "test/integration/support/serve-and-stop.mjs"),
  ]);
  expect(await child.exit).toEqual({ code: 0, signal: null });
  expect(child.output()).toBe("stopped 0 101\n");
  expect(child.errors()).toBe("");
});

test("starts that fail leave nothing behind: the process goes on, and ends by itself", async () => {
  const child = startChild(process.execPath, [
    join(packageRoot(), "test/integration/support/fail-to-start.mjs"),
  ]);
  expect(await child.exit).toEqual({ code: 0, signal: null });
  expect(JSON.parse(child.output())).toEqual({
    model: "MODEL_INVALID",
    port: "INVALID_VALUE",
    trace: "INVALID_VALUE",
    blocks: "CAPACITY",
    sequences: "INVALID_VALUE",
    inFlight: 0,
  });
});

test.each(["SIGTERM", "SIGINT"] as const)(
  "%s: a running answer is sent to its end, exit code 0",
  async (signal) => {
    const { child, url } = await startServe([]);
    const response = await fetch(`${url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        model: "tiny",
        prompt: "x".repeat(300),
        max_tokens: 200,
        ignore_eos: true,
        stream: true,
        stream_options: { include_usage: true },
      }),
    });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = (await reader?.read())?.value ?? "";
    child.process.kill(signal);
    for (;;) {
      const piece = await reader?.read();
      if (piece === undefined || piece.done) break;
      text += piece.value;
    }
    expect(text).toContain('"completion_tokens":200');
    expect(text.trimEnd().endsWith("data: [DONE]")).toBe(true);
    expect(await child.exit).toEqual({ code: 0, signal: null });
    await expect(fetch(`${url}/health`)).rejects.toThrow();
  },
);
