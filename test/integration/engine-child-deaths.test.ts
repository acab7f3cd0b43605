/**
 * Goal: an engine that lives in a child process may be killed at any moment: every request ends with the tokens that it has without
 * any pool, nothing stays in flight, and the next child serves.
 * Method: a whole runtime with the local engine in a child, killed by its pid amid concurrent loads and saves; what a request answers
 * without reuse is the measure. In some rounds the child is stopped first, so that calls are surely in it when it dies.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { engineChild, engineChildren, isRunning } from "./support/engine-child.ts";
import { generate, promptOf, startGenerating } from "./support/generate.ts";
import { settled } from "./support/gauges.ts";
import { dropLocalCache } from "./support/pool.ts";
import { startServing, type Serving } from "./support/serving.ts";
import { startServe } from "./support/child.ts";

const BLOCK = 16;
const REQUESTS = 8;
const TOKENS = 10;

let serving: Serving;
let prompts: Int32Array[];
let undisturbed: (readonly number[])[];

beforeAll(async () => {
  // Little KV memory and short steps: many loads, saves and steps overlap.
  serving = await startServing(
    { engine_process: "child", pool_bytes_max: "64mb" },
    { blockCount: 220, tokensPerStepMax: 64 },
  );
  const { application } = serving;
  prompts = Array.from({ length: REQUESTS }, (_, index) =>
    promptOf(application, 3 * BLOCK + 29 * index, index),
  );
  undisturbed = [];
  for (const prompt of prompts) {
    const answer = await generate(application, prompt, { noReuse: true, maxTokens: TOKENS });
    undisturbed.push(answer.tokens);
  }
});
afterAll(async () => {
  expect(await serving.application.stop()).toBe(0);
  expect(engineChildren()).toEqual([]);
});

const openAgain = async (): Promise<void> => {
  const { engine } = serving.application.runtime;
  await expect.poll(() => engine.status().state, { timeout: 120_000, interval: 5 }).toBe("open");
};

/** Half of the prompts are put into the pool and nothing stays in the local cache, so that they must be loaded. */
async function fillPool(): Promise<void> {
  const { application } = serving;
  await dropLocalCache(application);
  await Promise.all(
    prompts
      .filter((_, index) => index % 2 === 0)
      .map((prompt) => generate(application, prompt, { maxTokens: 1 })),
  );
  await dropLocalCache(application);
}

test("what was saved into the child is loaded out of it", async () => {
  const { application } = serving;
  await fillPool();
  const answer = await generate(application, prompts[6] ?? new Int32Array(0), {
    maxTokens: TOKENS,
  });
  expect(answer.tokens).toEqual(undisturbed[6]);
  expect(answer.summary.poolTokens).toBeGreaterThan(BLOCK);
});

test.each([
  { dieAt: -1, stopped: false },
  { dieAt: 0, stopped: true },
  { dieAt: 3, stopped: false },
  { dieAt: 12, stopped: true },
  { dieAt: 30, stopped: false },
])("killed at token $dieAt (stopped first: $stopped)", async ({ dieAt, stopped }) => {
  const { application, native } = serving;
  const { runtime } = application;
  const pid = await engineChild();
  await openAgain();
  await fillPool();
  const { reopenings } = runtime.engine.status();
  let killing: Promise<void> | undefined;
  const die = async (): Promise<void> => {
    if (stopped) {
      process.kill(pid, "SIGSTOP");
      const inFlight = (): number => native.engineStatistics(runtime.engineId).batchesInFlight;
      await expect.poll(inFlight, { timeout: 120_000, interval: 1 }).toBeGreaterThan(0);
    }
    process.kill(pid, "SIGKILL");
  };
  let tokens = 0;
  const onToken = (): void => {
    if (tokens++ === dieAt) killing = die();
  };
  const answers = prompts.map(
    (prompt) => startGenerating(application, prompt, { maxTokens: TOKENS }, onToken).answer,
  );
  if (dieAt < 0) killing = die();
  for (const [index, { tokens: got, summary }] of (await Promise.all(answers)).entries()) {
    expect(got).toEqual(undisturbed[index]);
    expect(summary.failure).toBe(null);
  }
  expect(killing).toBeDefined();
  await killing;
  await engineChild(pid);
  await openAgain();
  expect(isRunning(pid)).toBe(false);
  expect(runtime.engine.status().reopenings).toBe(reopenings + 1);
  expect(runtime.engine.status().error?.problem).toContain(`${pid} was ended by signal 9`);
  await settled(application);
});

test("the deaths stand in the log, and the pool serves on", async () => {
  const { application, log } = serving;
  expect(JSON.stringify(log.lines)).toContain("was ended by signal 9");
  // Lookups answer at once for a while after an engine's failures.
  await expect
    .poll(
      async () => {
        await fillPool();
        const answer = await generate(application, prompts[6] ?? new Int32Array(0), {
          maxTokens: TOKENS,
        });
        expect(answer.tokens).toEqual(undisturbed[6]);
        return answer.summary.poolTokens;
      },
      { timeout: 120_000 },
    )
    .toBeGreaterThan(BLOCK);
});

test("serve with a child: it goes when serve is killed", async () => {
  const json = {
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_both",
    kv_connector_extra_config: { engine: "local", engine_process: "child" },
  };
  const { child, url } = await startServe(["--kv-transfer-config", JSON.stringify(json)]);
  const pid = await engineChild(0, child.process.pid);
  const answer = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt: "A child of its own", max_tokens: 4, temperature: 0 }),
  });
  expect(answer.status).toBe(200);
  expect(isRunning(pid)).toBe(true);
  child.process.kill("SIGKILL");
  await child.exit;
  await expect.poll(() => isRunning(pid), { timeout: 120_000 }).toBe(false);
});
