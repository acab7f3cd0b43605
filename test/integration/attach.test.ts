/**
 * Goal: a serving loop with its own scheduler drives the connector on real actor threads, from one thread whose event loop never
 * turns in between; a synchronous lookup is bounded; another thread is refused.
 * Method: the public `attachConnector` with real addon and local engine; bytes of KV memory are compared.
 */
import { once } from "node:events";
import { threadId, Worker } from "node:worker_threads";
import { afterEach, describe, expect, test } from "vitest";
import { ACTOR_LOADER, ACTOR_LOOKUP, ACTOR_SAVER } from "../../src/actors/messages.ts";
import { readEnvironment } from "../../src/config/environment.ts";
import { blockBytes } from "../../src/config/kv-cache-config.ts";
import { normalizeKvCacheConfig } from "../../src/config/kv-cache-normalize.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";
import { attachConnector } from "../../src/index.ts";
import { BLOCK, BLOCK_COUNT, EmbeddedLoop, KV_CACHE, tokens } from "./support/embedded.ts";

let loop: EmbeddedLoop;
afterEach(async () => {
  expect(loop.pinned()).toEqual([]);
  expect(await loop.attached.stop()).toBe(0);
});

/** The KV bytes of a block in memory that the runtime owns. */
function kvOf(block: number): Uint8Array {
  const memory = loop.attached.kvMemory ?? new ArrayBuffer(0);
  const bytes = memory.byteLength / BLOCK_COUNT;
  return new Uint8Array(memory, block * bytes, bytes);
}
const fill = (block: number): void => {
  kvOf(block).fill(block);
};

/** Takes a request's prefix from the pool into fresh blocks; returns how many tokens, and the blocks. */
function takeFromPool(id: string, prompt: readonly number[]): [number, number[]] {
  const { scheduler } = loop.attached.connector;
  scheduler.addRequest(id, prompt);
  const [found, later] = loop.match(id);
  const blocks = loop.blocks(Math.ceil(prompt.length / BLOCK));
  scheduler.updateStateAfterAlloc(id, [blocks], found);
  if (later) {
    const done = loop.stepUntil(({ finishedRecving }) => finishedRecving.includes(id));
    expect(done.failedLoads).toEqual([]);
  }
  return [found, blocks];
}

describe("lookups and loads", () => {
  test.each([true, false])(
    "lookup_async %s: saved, found, loaded, byte for byte",
    async (lookupAsync) => {
      loop = await EmbeddedLoop.attach({ lookup_async: lookupAsync });
      const { scheduler } = loop.attached.connector;
      const saved = loop.computeAndSave("first", tokens(60, 1), fill);
      scheduler.addRequest("second", tokens(60, 1));
      const answer = scheduler.getNumNewMatchedTokens("second", 0);
      // Synchronous: answered within the call. Asynchronous: never, not even when it takes a moment.
      expect(answer).toEqual(lookupAsync ? [null, false] : [48, true]);
      scheduler.requestFinished("second");
      const [found, blocks] = takeFromPool("third", tokens(60, 1));
      expect(found).toBe(48);
      for (const [index, block] of blocks.slice(0, 3).entries())
        expect(kvOf(block)).toEqual(new Uint8Array(kvOf(block).length).fill(saved[index] ?? 0));
      expect(scheduler.outcome("third")).toBe("HIT");
      scheduler.requestFinished("third");
      loop.stepUntil(() => loop.attached.connector.idle());
    },
  );

  test("load_async false: the step starts the load and waits for it, the model sees its bytes", async () => {
    loop = await EmbeddedLoop.attach({ load_async: false });
    const { scheduler, worker } = loop.attached.connector;
    const saved = loop.computeAndSave("first", tokens(40, 2), fill);
    scheduler.addRequest("second", tokens(40, 2));
    expect(loop.match("second")).toEqual([32, false]);
    const blocks = loop.blocks(3);
    scheduler.updateStateAfterAlloc("second", [blocks], 32);
    const metadata = scheduler.buildConnectorMeta({
      scheduled: [
        { id: "second", numComputedTokens: 32, numScheduledTokens: 8, newBlockIds: null },
      ],
    });
    expect(metadata).toMatchObject({ loadCount: 1, hasSyncLoads: true });
    worker.startLoadKv(metadata);
    expect(worker.waitForLoads(10_000)).toBe(true);
    for (const [index, block] of blocks.slice(0, 2).entries())
      expect(kvOf(block)[0]).toBe(saved[index]);
    worker.waitForSave(metadata);
    const done = worker.getFinished();
    expect(done).toMatchObject({ finishedRecving: ["second"], failedLoads: [] });
    scheduler.updateConnectorOutput(done);
    scheduler.requestFinished("second");
    loop.stepUntil(() => loop.attached.connector.idle());
  });

  test("KV memory of the user's own, keys and values in two halves", async () => {
    const bytes = blockBytes(normalizeKvCacheConfig(KV_CACHE), 0) / 2;
    const memory = new Uint8Array(new SharedArrayBuffer(2 * bytes * BLOCK_COUNT));
    const half = bytes * BLOCK_COUNT;
    loop = await EmbeddedLoop.attach(
      {},
      {
        kvMemory: {
          kind: "user",
          memory,
          segments: [
            [
              { offset: 0, strideBytes: bytes, bytes },
              { offset: half, strideBytes: bytes, bytes },
            ],
          ],
        },
      },
    );
    expect(loop.attached.kvMemory).toBe(null);
    const halves = (block: number): Uint8Array[] =>
      [0, half].map((start) => memory.subarray(start + block * bytes, start + (block + 1) * bytes));
    loop.computeAndSave("first", tokens(40, 3), (block) => {
      for (const [index, part] of halves(block).entries()) part.fill(2 * block + index);
    });
    const [found, blocks] = takeFromPool("second", tokens(40, 3));
    expect(found).toBe(32);
    for (const [index, block] of blocks.slice(0, 2).entries())
      expect(halves(block).map((part) => [...new Set(part)])).toEqual([
        [2 * (index + 1)],
        [2 * (index + 1) + 1],
      ]);
    loop.attached.connector.scheduler.requestFinished("second");
    loop.stepUntil(() => loop.attached.connector.idle());
  });
});

describe("a synchronous lookup is bounded", () => {
  test("by lookup_timeout_ms while the lookup actor is dead, and works again when it is back", async () => {
    loop = await EmbeddedLoop.attach({ lookup_async: false, lookup_timeout_ms: 150 });
    const { scheduler } = loop.attached.connector;
    const { supervisor, ends } = loop.runtime;
    loop.computeAndSave("first", tokens(40, 4), fill);
    await supervisor.kill(ACTOR_LOOKUP);
    // From here to the answer the event loop does not turn, so nobody restarts the actor.
    scheduler.addRequest("second", tokens(40, 4));
    const began = ends.nowMs();
    expect(scheduler.getNumNewMatchedTokens("second", 0)).toEqual([0, false]);
    expect(ends.nowMs() - began).toBeGreaterThanOrEqual(149);
    expect(scheduler.outcome("second")).toBe("TIMEOUT");
    scheduler.requestFinished("second");
    await expect.poll(() => loop.runtime.healthy(), { timeout: 120_000 }).toBe(true);
    const [found] = takeFromPool("third", tokens(40, 4));
    expect(found).toBe(32);
    scheduler.requestFinished("third");
    loop.stepUntil(() => loop.attached.connector.idle());
  });
});

describe("deaths under an embedded loop", () => {
  test.each([
    ["loader", ACTOR_LOADER],
    ["saver", ACTOR_SAVER],
    ["lookup", ACTOR_LOOKUP],
  ] as const)("the %s actor dies between the question and the answer", async (_name, actor) => {
    loop = await EmbeddedLoop.attach({ lookup_async: true });
    const { scheduler } = loop.attached.connector;
    const { supervisor } = loop.runtime;
    const prompt = tokens(60, 5);
    loop.computeAndSave("first", prompt, fill);
    scheduler.addRequest("second", prompt);
    scheduler.getNumNewMatchedTokens("second", 0);
    const dead = supervisor.kill(actor);
    let answer: number | null = null;
    // Here the event loop must turn: restarts need it.
    await expect
      .poll(
        () => {
          loop.step();
          answer ??= scheduler.getNumNewMatchedTokens("second", 0)[0];
          return answer;
        },
        { timeout: 120_000, interval: 1 },
      )
      .not.toBe(null);
    await dead;
    const blocks = loop.blocks(4);
    const found = answer ?? 0;
    scheduler.updateStateAfterAlloc("second", [blocks], found);
    let kept = found;
    if (found > 0)
      await expect
        .poll(
          () => {
            const { finishedRecving, failedLoads } = loop.step();
            kept = failedLoads[0]?.keptTokens ?? kept;
            return finishedRecving;
          },
          { timeout: 120_000, interval: 1 },
        )
        .toEqual(["second"]);
    for (let block = 0; block < kept / BLOCK; block++)
      expect(kvOf(blocks[block] ?? 0)[0]).toBe(block + 1);
    loop.step([
      { id: "second", numComputedTokens: kept, numScheduledTokens: 60 - kept, newBlockIds: null },
    ]);
    scheduler.requestFinished("second");
    await expect
      .poll(
        () => {
          loop.step();
          return loop.attached.connector.idle() && loop.pinned().length === 0;
        },
        { timeout: 120_000, interval: 1 },
      )
      .toBe(true);
    await expect.poll(() => loop.runtime.healthy(), { timeout: 120_000 }).toBe(true);
    expect(loop.log.count("actor died")).toBe(1);
  });
});

describe("refusals", () => {
  test("WRONG_THREAD: a second thread cannot attach to the same runtime", async () => {
    loop = await EmbeddedLoop.attach();
    const { config: settings } = parseTransferConfig(undefined, readEnvironment({}));
    const worker = new Worker(new URL("support/second-thread.mjs", import.meta.url), {
      workerData: { plan: loop.runtime.plan, settings },
    });
    const [answer] = (await once(worker, "message")) as [unknown];
    expect(answer).toMatchObject({ code: "WRONG_THREAD", value: threadId });
    await worker.terminate();
  });

  test("wrong options throw with the field, and nothing runs", async () => {
    loop = await EmbeddedLoop.attach();
    const blockPool = { pin: () => undefined, unpin: () => undefined };
    const quiet = { environment: {}, logLevel: "silent", blockPool };
    const segments = [[{ offset: 0, strideBytes: 1024, bytes: 1024 }]];
    const memory = new Uint8Array(1024 * BLOCK_COUNT - 1);
    const attempts = [
      [{ kvCache: { ...KV_CACHE, blockSize: 0 } }, "blockSize"],
      [{ kvCache: KV_CACHE, requestSlots: 0 }, "requestSlots"],
      [{ kvCache: KV_CACHE, kvTransferConfig: "{" }, "kv_transfer_config"],
      [{ kvCache: KV_CACHE, kvMemory: { kind: "user", memory, segments } }, "kvMemory.segments"],
      [
        { kvCache: KV_CACHE, kvMemory: { kind: "user", memory, segments: [] } },
        "kvMemory.segments",
      ],
    ] as const;
    for (const [options, field] of attempts)
      await expect(attachConnector({ ...quiet, ...options })).rejects.toMatchObject({
        name: "MooncakeKvError",
        field: expect.stringContaining(field) as string,
      });
  });

  test("after stop every call says so", async () => {
    loop = await EmbeddedLoop.attach();
    expect(await loop.attached.stop()).toBe(0);
    expect(() => loop.attached.connector.scheduler.addRequest("late", tokens(16, 9))).toThrow(
      expect.objectContaining({ code: "CLOSED" }) as Error,
    );
  });
});
