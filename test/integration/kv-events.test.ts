/**
 * Goal: batches of KV events reach subscribers over real sockets, a subscriber that missed some gets them again or is told what is
 * lost, and no subscriber can hold up the publisher.
 * Method: publisher and subscriber of this project in one process, on free ports of 127.0.0.1 and a path for ipc; raw sockets where
 * the frames themselves are looked at.
 */
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { Dealer, Publisher, Router, Subscriber } from "zeromq";
import { afterEach, expect, test } from "vitest";
import { parseKvEventsConfig } from "../../src/config/kv-events-config.ts";
import { decodeBatch } from "../../src/events/decode-batch.ts";
import { KvEventEncoder } from "../../src/events/encode-batch.ts";
import type { KvEvent } from "../../src/events/kv-events.ts";
import { KvEventPublisher } from "../../src/events/publisher.ts";
import { END_OF_REPLAY, sequenceBytes, sequenceOf } from "../../src/events/sequence.ts";
import { KvEventSubscriber } from "../../src/events/subscriber.ts";
import type { KvEventMessage, SubscriberOptions } from "../../src/events/subscriber.ts";

const TIMEOUT_MS = 20_000;
const closers: (() => unknown)[] = [];
/** What publishers have logged. */
const told: object[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function publisherOf(
  settings: Record<string, unknown>,
  dataParallelRank = 0,
): Promise<KvEventPublisher> {
  const { config } = parseKvEventsConfig({
    enable_kv_cache_events: true,
    ...(settings["bind_endpoint"] === undefined ? { endpoint: "tcp://*:0" } : {}),
    ...settings,
  });
  const publisher = await KvEventPublisher.open({
    config,
    dataParallelRank,
    hostAddress: () => "127.0.0.1",
    wallClockMs: () => 1_700_000_000_250,
    log: { info: (fields, text) => void told.push({ ...fields, text }), warn: () => {} },
  });
  closers.push(() => publisher.close());
  return publisher;
}

function removed(hash: number): KvEvent {
  return { type: "BlockRemoved", blockHashes: [BigInt(hash)], medium: "GPU", groupIndex: 0 };
}

/** Publishes until the subscription has arrived at the publisher: ZeroMQ sends to nobody before. */
async function joined(publisher: KvEventPublisher, subscriber: Subscriber): Promise<number> {
  subscriber.receiveTimeout = 50;
  for (;;) {
    publisher.publish([removed(0)]);
    try {
      const [, sequence] = await subscriber.receive();
      subscriber.receiveTimeout = TIMEOUT_MS;
      return sequenceOf(sequence!)!;
    } catch {
      // Not there yet.
    }
  }
}

class Follower {
  readonly messages: AsyncIterator<KvEventMessage>;
  constructor(subscriber: KvEventSubscriber) {
    this.messages = subscriber[Symbol.asyncIterator]();
    closers.push(() => subscriber.close());
  }
  static async open(options: SubscriberOptions): Promise<Follower> {
    return new Follower(await KvEventSubscriber.open(options));
  }
  async next(): Promise<KvEventMessage> {
    const { value, done } = await this.messages.next();
    if (done === true) throw new Error("the subscription ended");
    return value;
  }
  /** `b5` batch 5, `r5` the same on demand, `lost 2-4`, `restart`, until `last` has come. */
  async until(last: string): Promise<string[]> {
    const seen: string[] = [];
    while (seen.at(-1) !== last) seen.push(textOf(await this.next()));
    return seen;
  }
}
function textOf(message: KvEventMessage): string {
  if (message.kind === "batch") return `${message.replayed ? "r" : "b"}${message.sequence}`;
  return message.kind === "lost" ? `lost ${message.from}-${message.to}` : message.kind;
}

test(
  "frames are topic, sequence number and payload, and rise by one",
  { timeout: TIMEOUT_MS },
  async () => {
    const publisher = await publisherOf({ topic: "kv@pod" }, 3);
    const socket = new Subscriber();
    closers.push(() => socket.close());
    socket.connect(publisher.endpoint);
    socket.subscribe("kv@");
    let sequence = await joined(publisher, socket);
    for (const hash of [5, 6, 7]) publisher.publish([removed(hash)]);
    const events: KvEvent[] = [];
    while (!isDeepStrictEqual(events.at(-1), removed(7))) {
      const frames = await socket.receive();
      expect(frames).toHaveLength(3);
      expect(frames[0]!.toString()).toBe("kv@pod");
      expect(frames[1]).toEqual(Buffer.from(sequenceBytes(++sequence)));
      const batch = decodeBatch(frames[2]!);
      expect(batch).toMatchObject({ timestampSeconds: 1_700_000_000.25, dataParallelRank: 3 });
      events.push(...batch.events);
    }
    expect(events.slice(-3)).toEqual([removed(5), removed(6), removed(7)]);
  },
);

test("a publisher that connects, and one on a path", { timeout: TIMEOUT_MS }, async () => {
  const collector = await KvEventSubscriber.open({ endpoint: "tcp://127.0.0.1:*", bind: true });
  const follower = new Follower(collector);
  const connecting = await publisherOf({ endpoint: collector.endpoint });
  const timer = setInterval(() => connecting.publish([removed(1)]), 5);
  const first = await follower.next();
  clearInterval(timer);
  expect(first).toMatchObject({ kind: "batch", batch: { events: [removed(1)] } });

  const folder = mkdtempSync(join(tmpdir(), "kv-events-"));
  closers.push(() => rmSync(folder, { recursive: true }));
  const path = `ipc://${join(folder, "events")}`;
  const onPath = await publisherOf({ endpoint: path });
  expect(onPath.endpoint).toBe(path);
  const other = await Follower.open({ endpoint: path });
  const again = setInterval(() => onPath.publish([removed(2)]), 5);
  expect(await other.next()).toMatchObject({ kind: "batch", batch: { events: [removed(2)] } });
  clearInterval(again);
});

test(
  "bind_endpoint binds the address that it names, which is logged",
  { timeout: TIMEOUT_MS },
  async () => {
    for (const host of ["127.0.0.1", "[::1]"]) {
      const publisher = await publisherOf({ bind_endpoint: `tcp://${host}:0` });
      expect(told.at(-1)).toMatchObject({ boundAddress: publisher.endpoint });
      const follower = await Follower.open({ endpoint: publisher.endpoint });
      const timer = setInterval(() => publisher.publish([removed(3)]), 5);
      expect(await follower.next()).toMatchObject({
        kind: "batch",
        batch: { events: [removed(3)] },
      });
      clearInterval(timer);
    }
    // Without it vLLM's rule holds, and the log does not claim that anybody can subscribe.
    await publisherOf({ endpoint: "tcp://127.0.0.1:1" });
    expect(told.at(-1)).toMatchObject({
      boundAddress: null,
      text: expect.stringContaining("collector") as string,
    });
  },
);

test("an ipc address at a file or at a living publisher's socket removes nothing", async () => {
  const folder = mkdtempSync(join(tmpdir(), "kv-events-"));
  closers.push(() => rmSync(folder, { recursive: true }));
  const refused = { code: "INVALID_VALUE" };
  const file = join(folder, "file");
  writeFileSync(file, "precious");
  symlinkSync(file, join(folder, "link"));
  for (const name of ["file", "link"]) {
    const address = `ipc://${join(folder, name)}`;
    await expect(publisherOf({ endpoint: address })).rejects.toMatchObject(refused);
    await expect(publisherOf({ bind_endpoint: address })).rejects.toMatchObject(refused);
    await expect(publisherOf({ replay_endpoint: address })).rejects.toMatchObject(refused);
    await expect(KvEventSubscriber.open({ endpoint: address, bind: true })).rejects.toMatchObject(
      refused,
    );
  }
  expect(readFileSync(join(folder, "link"), "utf8")).toBe("precious");
  const living = `ipc://${join(folder, "living")}`;
  const publisher = await publisherOf({ endpoint: living });
  await expect(publisherOf({ endpoint: living })).rejects.toMatchObject(refused);
  await publisher.close();
  await publisherOf({ endpoint: living });
});

test(
  "a subscriber that comes late asks for what it has missed",
  { timeout: TIMEOUT_MS },
  async () => {
    const publisher = await publisherOf({ replay_endpoint: "tcp://*:0", topic: "kv" });
    for (let index = 0; index < 5; index++) publisher.publish([removed(index)]);
    const follower = await Follower.open({
      endpoint: publisher.endpoint,
      replayEndpoint: publisher.replayEndpoint!,
      firstSequence: 0,
    });
    const timer = setInterval(() => publisher.publish([removed(99)]), 5);
    const seen: string[] = [];
    while (!seen.at(-1)?.startsWith("b")) seen.push(textOf(await follower.next()));
    clearInterval(timer);
    const live = Number(seen.at(-1)!.slice(1));
    expect(live).toBeGreaterThanOrEqual(5);
    expect(seen.slice(0, -1)).toEqual(Array.from({ length: live }, (_, index) => `r${index}`));
  },
);

test(
  "what the buffer does not hold any more is lost, and said",
  { timeout: TIMEOUT_MS },
  async () => {
    const publisher = await publisherOf({ replay_endpoint: "tcp://*:0", buffer_steps: 3 });
    const sequences: number[] = [];
    const dealer = new Dealer({ receiveTimeout: TIMEOUT_MS });
    closers.push(() => dealer.close());
    dealer.connect(publisher.replayEndpoint!);
    for (let index = 0; index < 10; index++) publisher.publish([removed(index)]);
    while (publisher.counters.batches < 10) await new Promise(setImmediate);
    // Not a question: no answer, and the next one is answered all the same.
    await dealer.send(["", sequenceBytes(0), "more"]);
    await dealer.send(["", sequenceBytes(4)]);
    for (;;) {
      const [empty, topic, sequence, payload] = await dealer.receive();
      expect([empty!.length, topic!.length]).toEqual([0, 0]);
      if (sequence!.equals(END_OF_REPLAY)) break;
      sequences.push(sequenceOf(sequence!)!);
      expect(decodeBatch(payload!).events).toEqual([removed(sequences.at(-1)!)]);
    }
    expect(sequences).toEqual([7, 8, 9]);
    expect(publisher.counters.replay).toEqual({ requests: 1, batches: 3, invalidRequests: 1 });

    const follower = await Follower.open({
      endpoint: publisher.endpoint,
      replayEndpoint: publisher.replayEndpoint!,
      firstSequence: 0,
    });
    const timer = setInterval(() => publisher.publish([removed(99)]), 5);
    const first = await follower.next();
    clearInterval(timer);
    expect(first).toMatchObject({ kind: "lost", from: 0 });
    expect((first as { to: number }).to).toBeGreaterThanOrEqual(7);
  },
);

test(
  "a gap in the middle is healed in order, by answers of both forms",
  { timeout: TIMEOUT_MS },
  async () => {
    // A publisher that loses messages on purpose, as ZeroMQ does at its high-water mark.
    for (const withTopic of [true, false]) {
      const publisher = new Publisher();
      const router = new Router();
      closers.push(
        () => publisher.close(),
        () => router.close(),
      );
      await publisher.bind("tcp://127.0.0.1:*");
      await router.bind("tcp://127.0.0.1:*");
      const encoder = new KvEventEncoder();
      const payload = (sequence: number): Uint8Array =>
        encoder.encode({ timestampSeconds: 1, events: [removed(sequence)], dataParallelRank: 0 });
      const send = (sequence: number): Promise<void> =>
        publisher.send(["", sequenceBytes(sequence), payload(sequence)]);
      void (async () => {
        for await (const [identity, , start] of router) {
          // Batch 5 is gone for good.
          for (let sequence = sequenceOf(start!)!; sequence < 9; sequence++)
            if (sequence !== 5)
              await router.send([
                identity!,
                "",
                ...(withTopic ? ["kv"] : []),
                sequenceBytes(sequence),
                payload(sequence),
              ]);
          await router.send([identity!, "", ...(withTopic ? [""] : []), END_OF_REPLAY, ""]);
        }
      })();
      const follower = await Follower.open({
        endpoint: publisher.lastEndpoint!,
        replayEndpoint: router.lastEndpoint!,
      });
      const timer = setInterval(() => void send(2), 5);
      await follower.until("b2");
      clearInterval(timer);
      await send(8);
      await send(9);
      const seen = (await follower.until("b9")).filter(
        (text) => text !== "b2" && text !== "restart",
      );
      expect(seen.slice(-7)).toEqual(["r3", "r4", "lost 5-6", "r6", "r7", "b8", "b9"]);
      await publisher.send(["", sequenceBytes(0), payload(0)]);
      await publisher.send(["", sequenceBytes(1), Uint8Array.of(0xc1)]);
      await publisher.send(["only a topic"]);
      await send(2);
      expect(await follower.until("b2")).toEqual(["restart", "b0", "invalid", "invalid", "b2"]);
    }
  },
);

test("a slow subscriber loses messages and holds up nobody", { timeout: TIMEOUT_MS }, async () => {
  const publisher = await publisherOf({ replay_endpoint: "tcp://*:0", hwm: 10 });
  const slow = new Subscriber({ receiveHighWaterMark: 1, receiveBufferSize: 4096 });
  closers.push(() => slow.close());
  slow.connect(publisher.endpoint);
  slow.subscribe();
  const before = (await joined(publisher, slow)) + 1;
  const large: KvEvent = { ...removed(1), medium: "x".repeat(100_000) } as KvEvent;
  const count = 500;
  for (let index = 0; index < count; index++) expect(publisher.publish([large])).toBe(true);
  while (publisher.waitingBatches > 0) await new Promise(setImmediate);
  expect(publisher.counters).toMatchObject({ droppedBatches: 0, failedSends: 0 });
  // What it has got is in order, with holes; a replay has all of it.
  const dealer = new Dealer({ receiveTimeout: TIMEOUT_MS, receiveHighWaterMark: 0 });
  closers.push(() => dealer.close());
  dealer.connect(publisher.replayEndpoint!);
  await dealer.send(["", sequenceBytes(before)]);
  let replayed = 0;
  for (;;) {
    const [, , sequence] = await dealer.receive();
    if (sequence!.equals(END_OF_REPLAY)) break;
    expect(sequenceOf(sequence!)).toBe(before + replayed++);
  }
  expect(replayed).toBeGreaterThanOrEqual(count);
  slow.receiveTimeout = 500;
  let received = 0;
  let last = before - 1;
  for (;;) {
    try {
      const [, sequence] = await slow.receive();
      expect(sequenceOf(sequence!)).toBeGreaterThan(last);
      last = sequenceOf(sequence!)!;
      received++;
    } catch {
      break;
    }
  }
  expect(received).toBeLessThan(count);
});

test(
  "a full queue drops batches, and every subscriber sees the gap",
  { timeout: TIMEOUT_MS },
  async () => {
    const publisher = await publisherOf({ replay_endpoint: "tcp://*:0", max_queue_size: 4 });
    const follower = await Follower.open({
      endpoint: publisher.endpoint,
      replayEndpoint: publisher.replayEndpoint!,
      firstSequence: 0,
    });
    // Nothing is sent before the caller has returned: the queue fills.
    const taken = Array.from({ length: 6 }, (_, index) => publisher.publish([removed(index)]));
    expect(taken).toEqual([true, true, true, true, false, false]);
    expect(publisher.counters.droppedBatches).toBe(2);
    while (publisher.waitingBatches > 0) await new Promise(setImmediate);
    publisher.lost();
    const timer = setInterval(() => publisher.publish([removed(99)]), 5);
    const seen: string[] = [];
    while (!seen.at(-1)?.startsWith("b7") && seen.length < 8)
      seen.push(textOf(await follower.next()));
    clearInterval(timer);
    const text = seen.join(" ").replaceAll(/[br](\d)/g, "$1");
    expect(text).toMatch(/^0 1 2 3 lost 4-7 7/);
  },
);

test(
  "ranks get ports of their own; an address in use is an error that leaves nothing open",
  { timeout: TIMEOUT_MS },
  async () => {
    const first = await publisherOf({});
    await first.close();
    expect(first.publish([removed(1)])).toBe(false);
    const folder = mkdtempSync(join(tmpdir(), "kv-events-"));
    closers.push(() => rmSync(folder, { recursive: true }));
    const path = `ipc://${join(folder, "events")}`;
    await expect(publisherOf({ endpoint: path }, 1)).rejects.toMatchObject({
      code: "INVALID_VALUE",
      field: "kv_events_config.endpoint",
    });
    const taken = new Router();
    closers.push(() => taken.close());
    await taken.bind("tcp://127.0.0.1:*");
    const endpoint = "inproc://kv-events";
    const replay = { replay_endpoint: taken.lastEndpoint };
    await expect(publisherOf({ endpoint, ...replay })).rejects.toThrow(/in use/i);
    expect((await publisherOf({ endpoint })).endpoint).toBe(endpoint);
    expect((await publisherOf({ endpoint }, 2)).endpoint).toBe(`${endpoint}_dp2`);
  },
);
