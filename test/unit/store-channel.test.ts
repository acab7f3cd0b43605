/**
 * Goal: the actor's side of an engine channel keeps its books (slots, completions, epochs) through full channels and deaths.
 * Method: the simulated engine behind the shared layout, a virtual clock; a successor attaches at every kind of moment.
 */
import { expect, test } from "vitest";

import * as layout from "../../src/blocks/layout.ts";
import { attachNativeChannel } from "../../src/store/native-channel.ts";
import { EngineCode, type EngineChannel } from "../../src/store/engine.ts";
import { ActorWorld, BLOCK_BYTES, range } from "./store-world.ts";

const SHAPE = { batchSlots: 3, keysPerBatchMax: 4 };

function submit(channel: EngineChannel, operation: number, rows: number[], tag: number): number {
  const slot = channel.acquire();
  const entries = channel.entries(slot);
  rows.forEach((row, index) => entries.set([0, 0, row, row], index * layout.ENTRY_WORDS));
  channel.submit(slot, operation, 0, rows.length, tag, tag);
  return slot;
}
function runAll(world: ActorWorld): void {
  while (world.clock.nextDueMs() < Infinity) {
    world.clock.nowMs = world.clock.nextDueMs();
    world.clock.runDue();
  }
}

test("a put is found by exists and got back, byte for byte", () => {
  const world = new ActorWorld({ shape: SHAPE });
  const channel = world.channel.attach(1);
  range(0, 4).forEach((row) => world.writeHash(0, row, row));
  world.block(0, 1).fill(7);
  submit(channel, layout.OPERATION_PUT, [1], 5);
  expect(channel.inFlight()).toBe(1);
  runAll(world);
  const put = channel.poll();
  expect([channel.tag(put), channel.status(put), channel.results(put)[0]]).toEqual([
    5,
    0,
    BLOCK_BYTES,
  ]);
  expect(channel.poll()).toBe(-1);
  channel.release(put);
  world.block(0, 1).fill(0);
  submit(channel, layout.OPERATION_GET, [1, 2], 6);
  submit(channel, layout.OPERATION_EXISTS, [1, 2], 7);
  runAll(world);
  for (let slot = channel.poll(); slot >= 0; slot = channel.poll()) {
    const results = [...channel.results(slot).subarray(0, 2)];
    if (channel.tag(slot) === 7) expect(results).toEqual([1, 0]);
    else expect(results).toEqual([BLOCK_BYTES, EngineCode.OBJECT_NOT_FOUND]);
    channel.release(slot);
  }
  expect(world.block(0, 1).every((byte) => byte === 7)).toBe(true);
  expect(channel.inFlight()).toBe(0);
});

test("a full channel pushes back until a slot is released", () => {
  const world = new ActorWorld({ shape: SHAPE });
  const channel = world.channel.attach(1);
  range(0, 3).forEach((tag) => submit(channel, layout.OPERATION_EXISTS, [0], tag));
  expect(channel.acquire()).toBe(-1);
  runAll(world);
  const done = channel.poll();
  expect(channel.acquire()).toBe(-1);
  channel.release(done);
  expect(channel.acquire()).toBe(done);
});

test("hundreds of batches wrap the completion ring, each completes once", () => {
  const world = new ActorWorld({ shape: SHAPE });
  const channel = world.channel.attach(1);
  const tags: number[] = [];
  for (let tag = 0; tags.length < 300;) {
    if (world.random.chance(0.6) && channel.inFlight() < 3)
      submit(channel, layout.OPERATION_EXISTS, [0], tag++);
    world.clock.nowMs += 1;
    world.clock.runDue();
    for (let slot = channel.poll(); slot >= 0; slot = channel.poll()) {
      tags.push(channel.tag(slot));
      channel.release(slot);
    }
  }
  expect(new Set(tags).size).toBe(tags.length);
});

test("a successor adopts submitted batches, takes unread completions, and frees what its predecessor held", () => {
  const world = new ActorWorld({ shape: SHAPE });
  const first = world.channel.attach(1);
  const unread = submit(first, layout.OPERATION_EXISTS, [0], 1);
  runAll(world);
  const submitted = submit(first, layout.OPERATION_EXISTS, [0], 2);
  const filling = first.acquire();
  const second = world.channel.attach(2);
  const adopted: number[] = [];
  second.forEachSubmitted((slot) => adopted.push(slot));
  expect(new Set(adopted)).toEqual(new Set([unread, submitted]));
  expect(second.inFlight()).toBe(2);
  expect(second.acquire()).toBe(filling);
  expect(second.acquire()).toBe(-1);
  runAll(world);
  const seen = [second.poll(), second.poll()];
  expect(new Set(seen)).toEqual(new Set([unread, submitted]));
  expect(seen.map((slot) => second.epoch(slot))).toEqual([1, 1]);
  expect(second.poll()).toBe(-1);
});

test("a completion that was polled but not released is not delivered again to a successor", () => {
  const world = new ActorWorld({ shape: SHAPE });
  const first = world.channel.attach(1);
  submit(first, layout.OPERATION_EXISTS, [0], 1);
  runAll(world);
  const polled = first.poll();
  const second = world.channel.attach(2);
  expect(second.inFlight()).toBe(0);
  expect(second.poll()).toBe(-1);
  expect(range(0, 3).map(() => second.acquire())).toContain(polled);
});

test("a predecessor that died while it took a completion leaves a ring entry that is skipped", () => {
  const world = new ActorWorld({ shape: SHAPE });
  const words = new Int32Array(layout.channelWords(SHAPE));
  let submits = 0;
  const binding = { channelSubmit: () => void submits++ };
  const first = attachNativeChannel({ words, shape: SHAPE, binding, channelId: 0, epoch: 1 });
  const slot = submit(first, layout.OPERATION_EXISTS, [0], 1);
  complete(words, slot, 0);
  // The poll had marked the slot as its own, and died before it moved the head.
  first.poll();
  words[layout.CHANNEL_HEAD_WORD] = 0;
  const second = attachNativeChannel({ words, shape: SHAPE, binding, channelId: 0, epoch: 2 });
  const again = submit(second, layout.OPERATION_EXISTS, [0], 9);
  expect(again).toBe(slot);
  expect(second.poll()).toBe(-1);
  complete(words, again, 1);
  expect(second.poll()).toBe(again);
  expect(second.tag(again)).toBe(9);
  expect(submits).toBe(2);
  expect(world.channel.inFlight()).toBe(0);
});

test("a batch that was published but perhaps never handed over is handed over once by the successor", () => {
  const words = new Int32Array(layout.channelWords(SHAPE));
  const taken: number[] = [];
  let refuse = false;
  const binding = {
    channelSubmit: (_channelId: number, slot: number): void => {
      if (refuse) throw new Error("in flight already");
      taken.push(slot);
    },
  };
  const attach = (epoch: number): EngineChannel =>
    attachNativeChannel({ words, shape: SHAPE, binding, channelId: 0, epoch });
  const slot = submit(attach(1), layout.OPERATION_EXISTS, [0], 1);
  // As if it had died between the publishing store and the call.
  words[
    words.indexOf(layout.BATCH_STATE_SUBMITTED, layout.CHANNEL_HEADER_WORDS) +
      layout.ACTOR_BATCH_TAKEN
  ] = 0;
  const second = attach(2);
  expect(taken).toEqual([slot, slot]);
  expect(second.inFlight()).toBe(1);
  attach(3);
  expect(taken).toEqual([slot, slot]);
  words[
    words.indexOf(layout.BATCH_STATE_SUBMITTED, layout.CHANNEL_HEADER_WORDS) +
      layout.ACTOR_BATCH_TAKEN
  ] = 0;
  refuse = true;
  expect(attach(4).inFlight()).toBe(1);
});

test("a batch that the engine refuses stays with the actor", () => {
  const words = new Int32Array(layout.channelWords(SHAPE));
  const binding = {
    channelSubmit: (): void => {
      throw new Error("CLOSED");
    },
  };
  const channel = attachNativeChannel({ words, shape: SHAPE, binding, channelId: 0, epoch: 1 });
  const slot = channel.acquire();
  expect(() => channel.submit(slot, layout.OPERATION_EXISTS, 0, 0, 0, 0)).toThrow("CLOSED");
  expect(channel.inFlight()).toBe(0);
  channel.release(slot);
  expect(channel.acquire()).toBe(slot);
});

/** What an engine does at the end of a batch, by hand. */
function complete(words: Int32Array, slot: number, position: number): void {
  const ring = Math.ceil(
    (layout.completionSlots(SHAPE) * layout.COMPLETION_WORDS) / layout.LINE_WORDS,
  );
  const batch =
    layout.CHANNEL_HEADER_WORDS + ring * layout.LINE_WORDS + slot * layout.batchWords(SHAPE);
  words[layout.CHANNEL_HEADER_WORDS + position * layout.COMPLETION_WORDS] = slot;
  words[batch + layout.BATCH_STATE_WORD] = layout.BATCH_STATE_DONE;
  words[layout.CHANNEL_TAIL_WORD] = position + 1;
}
