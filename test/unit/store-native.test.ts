/**
 * Goal: loader, saver and lookup work against the native local engine, over the same channel code as against the simulated one.
 * Method: the three actors on this thread, real I/O threads; a wait for completions is a turn of the event loop.
 */
import { expect, test } from "vitest";

import { LoaderActor } from "../../src/actors/loader/loader-actor.ts";
import { LookupActor } from "../../src/actors/lookup/lookup-actor.ts";
import * as messages from "../../src/actors/messages.ts";
import { SaverActor } from "../../src/actors/saver/saver-actor.ts";
import type { Actor, ActorContext } from "../../src/actors/step.ts";
import * as layout from "../../src/blocks/layout.ts";
import { loadNative } from "../../src/native/load.ts";
import { keySpaceOptions } from "../../src/store/key-spaces.ts";
import { attachNativeChannel } from "../../src/store/native-channel.ts";
import { ActorWorld, BLOCK_BYTES, range } from "./store-world.ts";

const SHAPE = { batchSlots: 4, keysPerBatchMax: 16 };

test("a saved prefix is found and loaded into other blocks, byte for byte", async () => {
  const native = loadNative();
  const world = new ActorWorld();
  const { tables, plans } = world;
  const share = (words: Int32Array): number =>
    native.sharedRegister(new Uint8Array(words.buffer, words.byteOffset, words.byteLength));
  const hashesSharedId = share(tables.hashes.words);
  const regionId = native.regionPin(world.memory);
  const plan = plans[0]!;
  const segments = plan.segments.map((rules) => rules.map((rule) => ({ ...rule, regionId })));
  const keySpaceId = native.keySpaceRegister(
    keySpaceOptions({ ...plan, segments }, { hashesSharedId, hashBytes: 32 }, 256),
  );
  const engineId = native.engineOpen({
    kind: "local",
    poolName: `store-native-${process.pid}`,
    bytesMax: 1 << 20,
    ioThreads: 2,
    verifyChecksums: true,
  });
  const workers = [{ ...plan, keySpaceId }];
  const open = (): { context: ActorContext; channelId: number; sharedId: number } => {
    const words = new Int32Array(new SharedArrayBuffer(layout.channelWords(SHAPE) * 4));
    const sharedId = share(words);
    const wakeId = native.wakeReserve();
    const channelId = native.channelOpen({ engineId, sharedId, wordOffset: 0, ...SHAPE, wakeId });
    const engine = attachNativeChannel({
      words,
      shape: SHAPE,
      binding: native,
      channelId,
      epoch: 1,
    });
    return { context: world.context(1, engine), channelId, sharedId };
  };
  const channels = [open(), open(), open()];
  const settle = async (actor: Actor, context: ActorContext): Promise<void> => {
    do {
      world.step(actor, context);
      await new Promise((resolve) => setImmediate(resolve));
    } while (!actor.idle());
  };

  const tokens = 4 * 60 + 1;
  const added = world.slots.addRequest({ tokens: range(0, tokens), tokensMax: tokens });
  if (!added.ok) throw new Error(added.remedy);
  const { slot, generation } = added;
  const hashPage = tables.requests[tables.request(slot) + layout.REQUEST_HASH_PAGE]!;
  range(0, 60).forEach((block) => world.block(0, block).fill(block + 1));
  const job = { slot, generation, hashPage };
  world.writeJob({ ...job, job: 0, kind: layout.JOB_KIND_SAVE, blocks: [range(0, 50)] });
  const [save, ask, load] = channels.map(({ context }) => context);
  world.inbox.push({ kind: "save", job: 0, ticket: 0, worker: 0 });
  await settle(new SaverActor({ tables, workers, rules: world.rules }), save!);
  expect(world.sent.pop()).toMatchObject({
    outcome: messages.OUTCOME_HIT,
    writtenBlocks: 50,
    kibibytes: Math.round((50 * BLOCK_BYTES) / 1024),
  });

  world.inbox.push({ kind: "lookup", slot, generation, attempt: 1, tokens, hashedBlocks: 0 });
  await settle(new LookupActor({ tables, rules: world.rules, keySpace: workers[0]! }), ask!);
  const word = tables.requests[tables.request(slot) + layout.REQUEST_LOOKUP_WORD]!;
  expect(layout.lookupState(word)).toBe(layout.LOOKUP_HIT);
  expect(tables.requests[tables.request(slot) + layout.REQUEST_HIT_TOKENS]).toBe(200);

  const blocks = [range(100, 152)];
  world.writeJob({ ...job, job: 1, kind: layout.JOB_KIND_LOAD, blocks });
  world.inbox.push({ kind: "load", job: 1, ticket: 0, worker: 0 });
  await settle(new LoaderActor({ tables, workers, rules: world.rules }), load!);
  expect(world.sent.pop()).toMatchObject({
    outcome: messages.OUTCOME_MISS,
    badChunk: 50,
    memoryBlocks: 50,
  });
  range(0, 50).forEach((chunk) =>
    expect(world.block(0, 100 + chunk)).toEqual(world.block(0, chunk)),
  );

  for (const { channelId } of channels) expect(native.channelClose(channelId)).toBe(0);
  expect(native.engineClose(engineId, 10_000)).toBe(0);
  native.keySpaceRelease(keySpaceId);
  native.regionRelease(regionId);
  for (const { sharedId } of channels) native.sharedRelease(sharedId);
  native.sharedRelease(hashesSharedId);
});
