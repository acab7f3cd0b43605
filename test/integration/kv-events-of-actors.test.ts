/**
 * Goal: what a runtime stores and forgets is told as KV events whose hashes are those of its keys, by a server over ZeroMQ and by an
 * attached connector through takeEvents; nothing is told twice, and nothing that was not stored.
 * Method: real actor threads, addon and local engine; events are compared with the keys that the engine holds, and with digests
 * that the TypeScript hasher makes of the prompt.
 */
import { expect, onTestFinished, test } from "vitest";
import { ACTOR_SCHEDULER } from "../../src/actors/messages.ts";
import { readEnvironment } from "../../src/config/environment.ts";
import type { BlockStored, KvEvent } from "../../src/events/kv-events.ts";
import { blockHashText } from "../../src/events/kv-events.ts";
import { openPublisher, readKvEventSettings } from "../../src/events/settings.ts";
import { KvEventSubscriber } from "../../src/events/subscriber.ts";
import { hashBlocks } from "../../src/keys/block-hash.ts";
import { noneHash } from "../../src/keys/none-hash.ts";
import type { Application, ApplicationOptions } from "../../src/serving/application.ts";
import { BLOCK, EmbeddedLoop, tokens } from "./support/embedded.ts";
import { generate, promptOf } from "./support/generate.ts";
import { settled } from "./support/gauges.ts";
import { dropLocalCache, poolKeys } from "./support/pool.ts";
import { startServing } from "./support/serving.ts";

const SETTINGS = {
  enable_kv_cache_events: true,
  endpoint: "tcp://*:0",
  replay_endpoint: "tcp://*:0",
};
const quiet = { info: () => {}, warn: () => {} };

/** Digests of the prompt's blocks, made by the twin of the addon's hasher. */
function digestsOf(prompt: ArrayLike<number>): Uint8Array[] {
  const none = noneHash(null, "sha256", () => new Uint8Array(0));
  const digests = hashBlocks({ tokens: prompt, blockSize: BLOCK }, none, "sha256");
  return Array.from({ length: digests.length / 32 }, (_, index) =>
    digests.slice(32 * index, 32 * index + 32),
  );
}
function low(digest: Uint8Array | undefined): string {
  return Buffer.from(digest ?? [])
    .subarray(24)
    .toString("hex");
}
/** A server that publishes, and everything that a subscriber has got of it. */
class Published {
  readonly events: KvEvent[] = [];
  readonly application: Application;
  /** Anything but batches, and batches that had to be asked for once the first had come. */
  readonly trouble: string[] = [];

  private constructor(application: Application, subscriber: KvEventSubscriber) {
    this.application = application;
    void this.#follow(subscriber);
  }

  static async start(options: Partial<ApplicationOptions> = {}): Promise<Published> {
    const { settings } = readKvEventSettings(
      SETTINGS,
      readEnvironment({ VLLM_HOST_IP: "127.0.0.1" }),
    );
    const publisher = await openPublisher(settings, {
      dataParallelRank: 0,
      wallClockMs: () => 1_700_000_000_000,
      log: quiet,
    });
    if (publisher === null) throw new Error("nothing is published");
    const { integerHashes } = settings;
    const { application } = await startServing(
      {},
      { kvEvents: { publisher, integerHashes }, ...options },
    );
    const subscriber = await KvEventSubscriber.open({
      endpoint: publisher.endpoint,
      replayEndpoint: publisher.replayEndpoint ?? "",
      firstSequence: 0,
      // Its first batches may be gone before it is connected; on a busy machine their replay takes longer than the second that it is given.
      replayTimeoutMs: 20_000,
    });
    onTestFinished(async () => {
      await application.stop();
      subscriber.close();
    });
    return new Published(application, subscriber);
  }

  async #follow(subscriber: KvEventSubscriber): Promise<void> {
    for await (const message of subscriber)
      if (message.kind === "batch") this.events.push(...message.batch.events);
      else this.trouble.push(message.kind);
  }

  /** Hashes that have been told of, in order. */
  hashes(type: "BlockStored" | "BlockRemoved", medium: string): string[] {
    return this.events.flatMap((event) =>
      event.type === type && event.medium === medium ? event.blockHashes.map(blockHashText) : [],
    );
  }
}

test("a server tells of local blocks and of blocks in the pool, by the hashes of their keys", async () => {
  const served = await Published.start();
  const { application, events } = served;
  // Until the subscription stands nothing arrives; then a replay brings what was missed.
  const prompt = promptOf(application, 5 * BLOCK + 3);
  await generate(application, prompt, { maxTokens: 2 });
  await settled(application);
  const other = promptOf(application, 2 * BLOCK + 1, 7);
  await expect
    .poll(
      async () => {
        await generate(application, other, { maxTokens: 1 });
        await dropLocalCache(application);
        return events.length;
      },
      { timeout: 120_000 },
    )
    .toBeGreaterThan(5);
  const expected = digestsOf(prompt).map(low);
  expect(expected).toHaveLength(5);
  await expect
    .poll(() => served.hashes("BlockStored", "cpu"))
    .toEqual(expect.arrayContaining([...expected, ...digestsOf(other).map(low)]));
  // Once each, and exactly those that the pool holds.
  expect(served.hashes("BlockStored", "cpu").toSorted()).toEqual(
    poolKeys(application)
      .map((key) => key.slice(-16))
      .toSorted(),
  );
  const local = events.filter(
    (event): event is BlockStored => event.type === "BlockStored" && event.medium === "GPU",
  );
  expect(local[0]).toMatchObject({
    parentBlockHash: null,
    blockSize: BLOCK,
    groupIndex: 0,
    kvCacheSpecKind: "full_attention",
    extraKeys: local[0]?.blockHashes.map(() => null),
  });
  expect(served.hashes("BlockStored", "GPU").slice(0, 5)).toEqual(expected);
  expect(local.flatMap(({ tokenIds }) => tokenIds).slice(0, 5 * BLOCK)).toEqual(
    Array.from(prompt.slice(0, 5 * BLOCK)),
  );
  for (const event of events) {
    if (event.type !== "BlockStored" || event.medium !== "cpu") continue;
    const at = expected.indexOf(blockHashText(event.blockHashes[0] ?? 0n));
    if (at === -1) continue;
    expect(event).toEqual({
      type: "BlockStored",
      blockHashes: [BigInt(`0x${expected[at]}`)],
      parentBlockHash: at === 0 ? null : BigInt(`0x${expected[at - 1]}`),
      tokenIds: Array.from(prompt.slice(at * BLOCK, at * BLOCK + BLOCK)),
      blockSize: BLOCK,
      loraId: null,
      medium: "cpu",
      loraName: null,
      groupIndex: 0,
    });
  }
  // Each drop emptied the whole local cache.
  await expect
    .poll(() => events.filter(({ type }) => type === "AllBlocksCleared").length)
    .toBeGreaterThan(0);
  expect(served.trouble).toEqual([]);
});

test(
  "blocks that make room are removed; a scheduler that begins anew has none",
  { timeout: 600_000 },
  async () => {
    // One request of full length, and nothing beside it.
    const served = await Published.start({ blockCount: 65 });
    const { application } = served;
    const { runtime } = application;
    const held = (): Set<string> => {
      const hashes = new Set<string>();
      for (const event of served.events)
        if (event.type === "AllBlocksCleared") hashes.clear();
        else if (event.medium === "GPU")
          for (const hash of event.blockHashes)
            if (event.type === "BlockStored") hashes.add(blockHashText(hash));
            else hashes.delete(blockHashText(hash));
      return hashes;
    };
    const prompts = Array.from({ length: 6 }, (_, index) =>
      promptOf(application, 20 * BLOCK, index),
    );
    for (const prompt of prompts) await generate(application, prompt, { maxTokens: 1 });
    await generate(application, prompts[5] ?? new Int32Array(1), { maxTokens: 1 });
    const last = digestsOf(prompts[5] ?? []).map(low);
    await expect
      .poll(() => last.every((hash) => held().has(hash)), { timeout: 120_000 })
      .toBe(true);
    expect(served.hashes("BlockRemoved", "GPU").length).toBeGreaterThan(0);
    const first = digestsOf(prompts[0] ?? []).map(low);
    expect(first.some((hash) => held().has(hash))).toBe(false);
    expect(served.trouble).toEqual([]);
    expect(held().size).toBeLessThanOrEqual(64);

    await runtime.supervisor.kill(ACTOR_SCHEDULER);
    await expect.poll(() => held().size, { timeout: 120_000 }).toBe(0);
    await generate(application, prompts[5] ?? new Int32Array(1), { maxTokens: 1 });
    await expect.poll(() => held().has(last[0] ?? ""), { timeout: 120_000 }).toBe(true);
  },
);

test("an attached connector gives events of saved blocks once, and publishes them with the loop's own", async () => {
  const loop = await EmbeddedLoop.attach(
    {},
    { kvEventsConfig: SETTINGS, environment: { VLLM_HOST_IP: "127.0.0.1" } },
  );
  const { attached } = loop;
  onTestFinished(async () => void (await attached.stop()));
  const { scheduler } = attached.connector;
  const prompt = tokens(3 * BLOCK + 5, 3);
  const expected = digestsOf(prompt).map(low);
  loop.computeAndSave("first", prompt, () => {});
  const events = scheduler.takeEvents();
  expect(events).toEqual(
    expected.map((hash, index) => ({
      type: "BlockStored",
      blockHashes: [BigInt(`0x${hash}`)],
      parentBlockHash: index === 0 ? null : BigInt(`0x${expected[index - 1]}`),
      tokenIds: prompt.slice(index * BLOCK, index * BLOCK + BLOCK),
      blockSize: BLOCK,
      loraId: null,
      medium: "cpu",
      loraName: null,
      groupIndex: 0,
    })),
  );
  // The longer prompt's first blocks are there already: only what is new is told.
  const longer = [...prompt.slice(0, 3 * BLOCK), ...tokens(2 * BLOCK, 4)];
  loop.computeAndSave("second", longer, () => {});
  const subscriber = await KvEventSubscriber.open({
    endpoint: attached.eventEndpoints?.endpoint ?? "",
    replayEndpoint: attached.eventEndpoints?.replayEndpoint ?? "",
    firstSequence: 0,
  });
  onTestFinished(() => subscriber.close());
  attached.publishEvents([{ type: "AllBlocksCleared" }]);
  expect(scheduler.takeEvents()).toEqual([]);
  const timer = setInterval(() => attached.publishEvents([{ type: "AllBlocksCleared" }]), 5);
  const { value } = await subscriber[Symbol.asyncIterator]().next();
  clearInterval(timer);
  expect(value).toMatchObject({
    kind: "batch",
    sequence: 0,
    batch: {
      dataParallelRank: 0,
      events: [
        { type: "AllBlocksCleared" },
        ...digestsOf(longer)
          .slice(3)
          .map((digest) => ({ blockHashes: [BigInt(`0x${low(digest)}`)], medium: "cpu" })),
      ],
    },
  });
  expect(attached.connector.gauges().lostEvents).toBe(0);
});

test("without KV events none are made; whole digests when vLLM's variable says so", async () => {
  const silent = await EmbeddedLoop.attach();
  onTestFinished(async () => void (await silent.attached.stop()));
  silent.computeAndSave("first", tokens(3 * BLOCK, 1), () => {});
  silent.attached.publishEvents();
  expect(silent.attached.connector.scheduler.takeEvents()).toEqual([]);
  expect(silent.attached.eventEndpoints).toBeNull();
  expect(silent.runtime.plan.eventRings).toBeNull();

  const whole = await EmbeddedLoop.attach(
    {},
    {
      kvEventsConfig: { enable_kv_cache_events: true, publisher: "null" },
      environment: { VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES: "0" },
    },
  );
  onTestFinished(async () => void (await whole.attached.stop()));
  const prompt = tokens(2 * BLOCK, 2);
  whole.computeAndSave("first", prompt, () => {});
  const [first, second] = digestsOf(prompt);
  expect(whole.attached.connector.scheduler.takeEvents()).toMatchObject([
    { blockHashes: [first], parentBlockHash: null },
    { blockHashes: [second], parentBlockHash: first },
  ]);
});
