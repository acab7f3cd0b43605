/**
 * Goal: a save tells of exactly the blocks that the pool did not have and has now, with the tokens and hashes of the request.
 * Method: real tables and the simulated engine on a virtual clock, with blocks that are there already and keys that fail; shards by
 * entries written by hand.
 */
import { expect, test } from "vitest";
import { StoredBlocks } from "../../src/actors/saver/stored-blocks.ts";
import { SaverActor } from "../../src/actors/saver/saver-actor.ts";
import * as layout from "../../src/blocks/layout.ts";
import { PageAllocator } from "../../src/blocks/page-arena.ts";
import { createEventRing } from "../../src/events/event-ring.ts";
import { KvEventWriter } from "../../src/events/event-records.ts";
import { KvEventSource } from "../../src/events/event-source.ts";
import type { KvEvent } from "../../src/events/kv-events.ts";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { valueKeys } from "./planned-transfers.ts";
import { ActorWorld, BLOCK_BYTES, range, type WorldOptions } from "./store-world.ts";

const SAVE = layout.JOB_KIND_SAVE;

/** A world whose request in slot 0 has tokens 5, 6, 7, ... and whose digests tell their block. */
function start(
  options: WorldOptions,
  ringWords = 4096,
): {
  world: ActorWorld;
  writer: KvEventWriter;
  source: KvEventSource;
  owner: (hashPage: number, generation?: number) => void;
} {
  const world = new ActorWorld(options);
  const { tables } = world;
  const ring = createEventRing(ringWords);
  const tokenPage = new PageAllocator(tables.tokens).allocate(1200);
  for (const token of range(0, 1200)) tables.tokens.set(tokenPage, token, token + 5);
  return {
    world,
    writer: new KvEventWriter(ring, tables, tables.dimensions.hashBlockSize),
    source: new KvEventSource({ rings: [ring], digestBytes: 32, integerHashes: false, groups: [] }),
    owner: (hashPage, generation = 1) => {
      const record = tables.request(0);
      tables.requests[record + layout.REQUEST_GENERATION] = generation;
      tables.requests[record + layout.REQUEST_TOKEN_PAGE] = tokenPage;
      tables.requests[record + layout.REQUEST_HASH_PAGE] = hashPage;
    },
  };
}

/** Number of the hash block that a digest of the world names. */
function markOf(hash: bigint | Uint8Array | null): number | null {
  return hash instanceof Uint8Array ? Buffer.from(hash).readInt32LE(0) - 1 : null;
}
interface Told {
  readonly hash: number | null;
  readonly parent: number | null;
  readonly group: number;
  readonly from: number;
  readonly size: number;
}
function toldOf(event: KvEvent): Told {
  if (event.type !== "BlockStored") throw new Error(`a save told ${event.type}`);
  const { blockHashes, parentBlockHash, tokenIds, blockSize, groupIndex } = event;
  expect(event).toMatchObject({ medium: "cpu", loraId: null, loraName: null });
  expect(tokenIds).toEqual(range(0, blockSize).map((index) => (tokenIds[0] ?? 0) + index));
  return {
    hash: markOf(blockHashes[0] ?? null),
    parent: markOf(parentBlockHash),
    group: groupIndex ?? -1,
    from: (tokenIds[0] ?? 0) - 5,
    size: blockSize,
  };
}
const chunk = (index: number, group = 0): Told => ({
  hash: index,
  parent: index === 0 ? null : index - 1,
  group,
  from: 4 * index,
  size: 4,
});

test("blocks that were there and keys that fail are not told of; each other one once, in order", () => {
  const { world, writer, source, owner } = start({});
  const saver = new SaverActor({
    tables: world.tables,
    workers: world.workers,
    rules: world.rules,
    events: writer,
  });
  // Over two pages of hashes.
  const hashPage = world.writeJob({ job: 2, kind: SAVE, blocks: [range(1, 81)] });
  owner(hashPage);
  world.fillPool(hashPage, range(10, 20));
  let puts = 0;
  world.faults = {
    keyResult: (operation) =>
      operation === layout.OPERATION_PUT && puts++ % 7 === 3 ? EngineCode.ENGINE_ERROR : 0,
  };
  world.inbox.push({ kind: "save", job: 2, ticket: 0, worker: 0 });
  world.run(saver, world.context());
  const stored = range(0, 80).filter(
    (index) =>
      (index < 10 || index >= 20) &&
      world.pool.peek(world.key(0, 0, hashPage, index)) !== undefined,
  );
  expect(stored.length).toBeLessThan(70);
  const told = source.take().map(toldOf);
  expect(told.toSorted((a, b) => a.from - b.from)).toEqual(stored.map((index) => chunk(index)));

  // Again: what failed is put now, and only that is told.
  world.faults = {};
  world.writeJob({ job: 3, kind: SAVE, blocks: [range(1, 81)], hashPage });
  world.inbox.push({ kind: "save", job: 3, ticket: 0, worker: 0 });
  world.run(saver, world.context());
  const missed = range(0, 80).filter(
    (index) => !stored.includes(index) && (index < 10 || index >= 20),
  );
  expect(
    source
      .take()
      .map((event) => toldOf(event).from / 4)
      .toSorted((a, b) => a - b),
  ).toEqual(missed);
});

test("several groups, chunks of two hash blocks, a job in the middle of the request", () => {
  const { world, writer, source, owner } = start({ dimensions: { groups: 2, blockSize: 8 } });
  const saver = new SaverActor({
    tables: world.tables,
    workers: world.workers,
    rules: world.rules,
    events: writer,
  });
  const blocks = [range(1, 4), range(11, 14)];
  const hashPage = world.writeJob({ job: 0, kind: SAVE, first: 2, blocks });
  owner(hashPage);
  world.inbox.push({ kind: "save", job: 0, ticket: 0, worker: 0 });
  world.run(saver, world.context());
  expect(source.take().map(toldOf)).toEqual(
    [2, 3, 4].flatMap((index) =>
      [0, 1].map((group) => ({
        hash: 2 * index + 1,
        parent: 2 * index - 1,
        group,
        from: 8 * index,
        size: 8,
      })),
    ),
  );
});

test("a block of several values is told when all are stored; ends of prefixes inside a block are not", () => {
  const { world, writer, source, owner } = start({
    dimensions: { groups: 2, blockSize: 8, groupSpanTokens: [8, 4] },
  });
  const { tables } = world;
  const hashPage = world.writeJob({ job: 0, kind: SAVE, blocks: [range(1, 5), range(1, 9)] });
  owner(hashPage);
  const stored = new StoredBlocks(tables, writer);
  const entries: number[] = [];
  // Group, shard, hash block: and what the engine said.
  const values = [
    [0, 0, 1, 64],
    [0, 1, 1, 64],
    [0, 0, 3, 64],
    [0, 1, 3, EngineCode.ENGINE_ERROR],
    [0, 0, 6, 64],
    [1, 0, 0, 64],
    [1, 0, 6, 64],
  ] as const;
  for (const [group, shard, hash] of values) {
    const entry = Array.from({ length: layout.ENTRY_WORDS }, () => 0);
    entry[layout.ENTRY_GROUP] = group;
    entry[layout.ENTRY_PREFIX] = shard;
    entry[layout.ENTRY_HASH_ROW] = tables.hashes.row(hashPage, hash);
    entries.push(...entry);
  }
  const results = Int32Array.from(values, ([, , , code]) => code);
  const putDone = (generation: number, status: number): void =>
    stored.putDone(0, generation, Int32Array.from(entries), status, results, values.length);
  putDone(1, 0);
  expect(source.take().map(toldOf)).toEqual([
    { hash: 1, parent: null, group: 0, from: 0, size: 8 },
    { hash: 0, parent: null, group: 1, from: 0, size: 4 },
    { hash: 6, parent: 5, group: 1, from: 24, size: 4 },
  ]);
  // A batch that failed as a whole, and one of a request whose slot is used again.
  putDone(1, EngineCode.ENGINE_DOWN);
  putDone(2, 0);
  expect(source.take()).toEqual([]);
});

test("nobody takes the events: they are lost and counted, and the save goes on", () => {
  const { world, writer, source, owner } = start({}, 64);
  const saver = new SaverActor({
    tables: world.tables,
    workers: world.workers,
    rules: world.rules,
    events: writer,
  });
  const hashPage = world.writeJob({ job: 0, kind: SAVE, blocks: [range(1, 9)] });
  owner(hashPage);
  world.inbox.push({ kind: "save", job: 0, ticket: 0, worker: 0 });
  world.run(saver, world.context());
  expect(saver.counters.writtenBlocks).toBe(8);
  expect(source.take().map(toldOf)).toEqual([chunk(0), chunk(1)]);
  expect(source.lostEvents()).toBe(6);
});

test("a planned save tells of its blocks when it is over, of several values once, and not of states", () => {
  const rules = hitRules({
    groups: [
      { kind: "full", spanTokens: 4 },
      { kind: "mamba", spanTokens: 8 },
    ],
    hashBlockSize: 4,
  });
  for (const valuesPerBlock of [1, 2]) {
    const { world, writer, source, owner } = start({
      rules,
      valuesPerBlock,
      dimensions: { groups: 2, blockSize: 8, groupSpanTokens: [4, 8] },
    });
    const { tables, workers } = world;
    const saver = new SaverActor({ tables, workers, rules, events: writer });
    const hashPage = world.writeJob({
      job: 0,
      kind: SAVE,
      blocks: [range(1, 5), []],
      planned: { tokens: 16, hashes: 4, boundaryPuts: [[1, 9, 16]] },
    });
    owner(hashPage);
    // One of the second block's values is there already (if there are several), and the whole third block.
    const there = [
      ...valueKeys(world, 0, hashPage, 1).slice(1),
      ...valueKeys(world, 0, hashPage, 2),
    ];
    for (const key of there) world.pool.put(key, new Uint8Array(BLOCK_BYTES / valuesPerBlock));
    world.inbox.push({ kind: "save", job: 0, ticket: 0, worker: 0 });
    world.run(saver, world.context());
    const told = (index: number): Told => ({ ...chunk(index), from: 4 * index, size: 4 });
    expect(source.take().map(toldOf)).toEqual([told(0), told(1), told(3)]);
  }
});
