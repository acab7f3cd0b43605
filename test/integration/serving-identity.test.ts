/**
 * Goal: a server whose blocks would be read wrong by the pool's others computes and says so everywhere a person looks; vLLM's
 * /reset_prefix_cache empties what is this deployment's, and is there on loopback only unless asked for.
 * Method: whole servers over one local pool by its name; the second one's weights have another fingerprint.
 */
import { afterEach, expect, test } from "vitest";
import { OUTCOME_IDENTITY_MISMATCH } from "../../src/actors/messages.ts";
import type { Application } from "../../src/serving/application.ts";
import { type Answer, generate, promptOf } from "./support/generate.ts";
import { dropLocalCache, poolKeys } from "./support/pool.ts";
import { freshPoolName, startServing, tinyModel } from "./support/serving.ts";

const HTTP = { host: "127.0.0.1", port: 0, debugRoutes: false };
const open: Application[] = [];
afterEach(async () => {
  for (const application of open.splice(0)) expect(await application.stop()).toBe(0);
});

async function start(
  extra: Readonly<Record<string, unknown>>,
  options: Parameters<typeof startServing>[1] = {},
): Promise<Application> {
  const { application } = await startServing(extra, { http: HTTP, ...options });
  open.push(application);
  return application;
}

async function get(application: Application, path: string): Promise<string> {
  const response = await fetch(`${application.server?.url ?? ""}${path}`);
  expect(response.status).toBe(200);
  return response.text();
}
async function reset(application: Application, query = ""): Promise<[number, unknown]> {
  const url = `${application.server?.url ?? ""}/reset_prefix_cache${query}`;
  const response = await fetch(url, { method: "POST" });
  return [response.status, await response.json()];
}
async function cold(application: Application, prompt: Int32Array): Promise<Answer> {
  return generate(application, prompt, { noReuse: true });
}

test("other weights: it computes the right answer, and health, metrics and usage say why", async () => {
  const pool_name = freshPoolName();
  const first = await start({ pool_name });
  expect(JSON.parse(await get(first, "/health"))).toEqual({
    status: "ok",
    engine: "open",
    pool: "open",
  });
  const prompt = promptOf(first, 100);
  await generate(first, prompt);
  await dropLocalCache(first);
  expect(await get(first, "/metrics")).toMatch(/mooncake_kv_pool_closed\{.*\} 0/);
  const before = poolKeys(first).length;
  expect(before).toBeGreaterThan(0);

  const model = { ...(await tinyModel()), weightsFingerprint: "others" };
  const second = await start({ pool_name }, { model });
  expect(JSON.parse(await get(second, "/health"))).toMatchObject({
    status: "ok",
    pool: "closed",
    differences: [{ field: "bytes.weightsFingerprint", ours: '"others"' }],
  });
  expect(await get(second, "/metrics")).toMatch(/mooncake_kv_pool_closed\{.*\} 1/);
  const answer = await generate(second, prompt);
  expect(answer.summary).toMatchObject({ poolTokens: 0, lookupOutcome: OUTCOME_IDENTITY_MISMATCH });
  expect(answer.hashes).toEqual((await cold(second, prompt)).hashes);
  await dropLocalCache(second);
  expect(poolKeys(first)).toHaveLength(before);

  // Behind a prefix of its own it is a member like any other.
  const third = await start({ pool_name, cache_prefix: "new" }, { model });
  expect(JSON.parse(await get(third, "/health"))).toMatchObject({ pool: "open" });
});

test("reset_prefix_cache drops the local cache, and asked so this deployment's blocks in the pool", async () => {
  const pool_name = freshPoolName();
  const [first, other] = [
    await start({ pool_name }),
    await start({ pool_name, cache_prefix: "b" }),
  ];
  const prompt = promptOf(first, 100);
  for (const application of [first, other]) await generate(application, prompt);
  await dropLocalCache(other);
  const expected = (await cold(first, prompt)).hashes;

  expect(await reset(first)).toEqual([200, { success: true, localBlocks: 6, poolKeys: 0 }]);
  const fromPool = await generate(first, prompt);
  expect(fromPool.summary).toMatchObject({ localTokens: 0, poolTokens: 96 });
  expect(fromPool.hashes).toEqual(expected);

  const [status, answer] = await reset(first, "?reset_external=true");
  // Six blocks and the identity.
  expect([status, answer]).toEqual([200, { success: true, localBlocks: 6, poolKeys: 7 }]);
  const computed = await generate(first, prompt);
  expect(computed.summary).toMatchObject({ localTokens: 0, poolTokens: 0 });
  expect(computed.hashes).toEqual(expected);
  expect((await generate(other, prompt)).summary).toMatchObject({ poolTokens: 96 });
  expect((await reset(first, "?reset_external=maybe"))[0]).toBe(400);
});

test("running requests make it fail, or are waited for; new ones stand in line meanwhile", async () => {
  const application = await start({});
  const prompt = promptOf(application, 40);
  const running = generate(application, prompt, { maxTokens: 200 });
  expect(await reset(application)).toEqual([
    200,
    { success: false, code: "BUSY", reason: "1 requests are running" },
  ]);
  const waits = reset(application, "?reset_running_requests=1&reset_external=1");
  const [, answer] = await waits;
  expect(answer).toMatchObject({ success: true });
  const late = await generate(application, prompt);
  expect((await running).summary.outputTokens).toBe(200);
  expect(late.summary).toMatchObject({ localTokens: 0, poolTokens: 0 });
});

test("on an address that others reach there is no such route unless it is asked for", async () => {
  const everywhere = await start({}, { http: { ...HTTP, adminRoutes: false } });
  expect((await reset(everywhere))[0]).toBe(404);
});
