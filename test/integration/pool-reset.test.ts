/**
 * Goal: a reset empties this deployment's part of the pool and nobody else's, waits for the saves in flight, and is refused while
 * old blocks could come back.
 * Method: embedded runtimes with different prefixes over one local pool by its name, reset through the connector; the state of the
 * pool is read by its keys.
 */
import { afterEach, expect, test } from "vitest";
import { ACTOR_SAVER } from "../../src/actors/messages.ts";
import { EmbeddedLoop, KV_CACHE, tokens } from "./support/embedded.ts";
import { freshPoolName } from "./support/serving.ts";

const PROMPT = tokens(64, 1);
const open: EmbeddedLoop[] = [];
let pool = freshPoolName();

afterEach(async () => {
  for (const loop of open.splice(0)) await loop.attached.stop();
  pool = freshPoolName();
});

async function join(
  cachePrefix: string,
  modelName: string = KV_CACHE.modelName,
  options: object = {},
): Promise<EmbeddedLoop> {
  const loop = await EmbeddedLoop.attach(
    { pool_name: pool, cache_prefix: cachePrefix, save_timeout_ms: 20_000 },
    { kvCache: { ...KV_CACHE, modelName }, ...options },
  );
  open.push(loop);
  return loop;
}

/** Keys of blocks in the pool. */
function blockKeys({ runtime }: EmbeddedLoop, prefix = ""): number {
  return runtime.native
    .engineKeys(runtime.engineId, prefix, 1000)
    .filter((key) => key.includes("@tp_rank:")).length;
}

/** Four blocks of each deployment: prefix a, prefix b, model c without a prefix, and a prefix that is that model's name. */
async function four(): Promise<Record<"a" | "b" | "plain" | "named", EmbeddedLoop>> {
  const loops = {
    a: await join("a"),
    b: await join("b"),
    plain: await join("", "org/c"),
    named: await join("c"),
  };
  for (const loop of Object.values(loops)) loop.computeAndSave("save", PROMPT, () => undefined);
  expect(blockKeys(loops.a)).toBe(16);
  return loops;
}

test("by force all models' keys under the prefix go, not those of a model without one that is named as it", async () => {
  const { named, plain } = await four();
  const sibling = await join("c", "org/sibling");
  sibling.computeAndSave("save", PROMPT, () => undefined);
  const { scheduler } = named.attached.connector;
  // Eight blocks and two identities.
  expect(await scheduler.resetStore({ force: true })).toEqual({
    acknowledged: true,
    removedKeys: 10,
  });
  expect([blockKeys(plain), blockKeys(plain, "c@tp_rank:"), blockKeys(plain, "c@")]).toEqual([
    12, 4, 4,
  ]);
  plain.attached.connector.scheduler.addRequest("again", PROMPT);
  expect(plain.match("again")).toEqual([48, true]);
});

test.each([false, true])("with a prefix only its keys go, forced or not (%s)", async (force) => {
  const { a } = await four();
  const answer = await a.attached.connector.scheduler.resetStore({ force });
  // Four blocks and the identity.
  expect(answer).toEqual({ acknowledged: true, removedKeys: 5 });
  expect([blockKeys(a), blockKeys(a, "a@")]).toEqual([12, 0]);
  // Who this member is, is published anew.
  expect(a.runtime.native.engineKeys(a.runtime.engineId, "a@", 10)).toEqual([
    "a@model@mooncake-kv-identity",
  ]);
  const { scheduler } = a.attached.connector;
  scheduler.addRequest("again", PROMPT);
  expect(a.match("again")).toEqual([0, false]);
  expect(scheduler.outcome("again")).toBe("MISS");
});

test("without a prefix only this model's keys go, unless it is forced", async () => {
  const { plain } = await four();
  const { scheduler } = plain.attached.connector;
  expect(await scheduler.resetStore()).toEqual({ acknowledged: true, removedKeys: 5 });
  // The deployment whose prefix is this model's name keeps its blocks.
  expect([blockKeys(plain), blockKeys(plain, "c@model@tp_rank")]).toEqual([12, 4]);
  expect(await scheduler.resetStore({ force: true })).toMatchObject({ acknowledged: true });
  expect(blockKeys(plain)).toBe(0);
});

test("saves in flight end first: nothing comes back after the reset", async () => {
  const loop = await join("a");
  const { scheduler } = loop.attached.connector;
  scheduler.addRequest("save", PROMPT);
  loop.match("save");
  const blocks = loop.blocks(4);
  scheduler.updateStateAfterAlloc("save", [blocks], 0);
  // The saver takes its save only when it runs anew: until then the save is in flight.
  await loop.runtime.supervisor.kill(ACTOR_SAVER);
  loop.step([{ id: "save", numComputedTokens: 0, newBlockIds: null, numScheduledTokens: 64 }]);
  scheduler.requestFinished("save", [blocks]);
  const reset = scheduler.resetStore();
  expect(loop.pinned()).toEqual(blocks);
  expect(await reset).toMatchObject({ acknowledged: true });
  loop.stepUntil(() => loop.attached.connector.idle());
  expect(loop.pinned()).toEqual([]);
  expect(blockKeys(loop)).toBe(0);
  // And saves go on afterwards.
  loop.computeAndSave("after", PROMPT, () => undefined);
  expect(blockKeys(loop)).toBe(4);
});

test("refused while requests hold blocks, a step is open or another reset runs", async () => {
  const loop = await join("a");
  const { scheduler, worker } = loop.attached.connector;
  loop.computeAndSave("old", PROMPT, () => undefined);
  const busy = { acknowledged: false, reason: "BUSY" };

  scheduler.addRequest("runs", tokens(64, 2));
  loop.match("runs");
  const blocks = loop.blocks(4);
  scheduler.updateStateAfterAlloc("runs", [blocks], 0);
  expect(await scheduler.resetStore()).toMatchObject(busy);
  const scheduled = { id: "runs", numComputedTokens: 0, newBlockIds: null, numScheduledTokens: 64 };
  const metadata = scheduler.buildConnectorMeta({ scheduled: [scheduled] });
  scheduler.requestFinished("runs", [blocks]);
  expect(await scheduler.resetStore()).toMatchObject(busy);
  expect(blockKeys(loop)).toBe(4);

  worker.waitForSave(metadata);
  const [first, second] = [scheduler.resetStore(), scheduler.resetStore()];
  expect(await second).toMatchObject(busy);
  expect(await first).toMatchObject({ acknowledged: true });
  loop.stepUntil(() => loop.attached.connector.idle());
  expect(blockKeys(loop)).toBe(0);
});

test("a preempted request waits it out and finds nothing old", async () => {
  const loop = await join("a");
  const { scheduler } = loop.attached.connector;
  loop.computeAndSave("old", PROMPT, () => undefined);
  scheduler.addRequest("waits", PROMPT);
  // Answered, not taken: what was found is void after the reset.
  expect(loop.match("waits")).toEqual([48, true]);
  scheduler.buildConnectorMeta({ scheduled: [], preempted: ["waits"] });
  const reset = scheduler.resetStore();
  // Amid the reset it is told at once.
  expect(scheduler.getNumNewMatchedTokens("waits", 0)).toEqual([0, false]);
  expect(await reset).toMatchObject({ acknowledged: true });
  scheduler.addRequest("later", PROMPT);
  expect(loop.match("later")).toEqual([0, false]);
});

test("KV events say that all blocks are gone, behind those that were stored", async () => {
  const kvEventsConfig = { enable_kv_cache_events: true, publisher: "null" };
  const loop = await join("a", KV_CACHE.modelName, { kvEventsConfig });
  const { scheduler } = loop.attached.connector;
  loop.computeAndSave("save", PROMPT, () => undefined);
  expect(await scheduler.resetStore()).toMatchObject({ acknowledged: true });
  const types = scheduler.takeEvents().map(({ type }) => type);
  expect(types).toEqual([...Array.from({ length: 4 }, () => "BlockStored"), "AllBlocksCleared"]);
  expect(scheduler.takeEvents()).toEqual([]);
});

test("a member that the pool is closed for removes nothing unless forced", async () => {
  const first = await join("a");
  first.computeAndSave("save", PROMPT, () => undefined);
  const other = await join("a", KV_CACHE.modelName, {
    kvCache: { ...KV_CACHE, dtype: "bfloat16" },
  });
  const { scheduler } = other.attached.connector;
  expect(await scheduler.resetStore()).toMatchObject({
    acknowledged: false,
    reason: "IDENTITY_MISMATCH",
  });
  expect(blockKeys(first)).toBe(4);
  expect(await scheduler.resetStore({ force: true })).toMatchObject({ acknowledged: true });
  expect(blockKeys(first)).toBe(0);
  expect(other.attached.membership().membership).toBe("open");
});
