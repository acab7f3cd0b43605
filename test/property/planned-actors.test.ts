/**
 * Goal: what the saver puts is what the loader of another request with the same tokens gets: byte for byte, in every block that a
 * hit needs and in no other, for any model; and what the pool lost in between is reported.
 * Method: random hybrid models, shards, ranks, saves in pieces, batch shapes and lost keys, through the real actors and the
 * simulated engine.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { LoaderActor } from "../../src/actors/loader/loader-actor.ts";
import { OUTCOME_HIT, OUTCOME_MISS } from "../../src/actors/messages.ts";
import { SaverActor } from "../../src/actors/saver/saver-actor.ts";
import * as layout from "../../src/blocks/layout.ts";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { planLoad } from "../../src/keys/coordinator/transfer-plan.ts";
import { stagingBudget, stagingBytes } from "../../src/store/disk-split.ts";
import { plannedWorld, rowsOf, valueKeys } from "../unit/planned-transfers.ts";
import { BLOCK_BYTES } from "../unit/store-world.ts";

const HASH = 4;
const group = fc.record({
  kind: fc.constantFrom("full" as const, "mla" as const, "swa" as const, "mamba" as const),
  spanTokens: fc.constantFrom(HASH, 2 * HASH, 4 * HASH),
  // A window of one token needs no block, but a hit asks for one: vLLM's rule, which no model has use for.
  slidingWindow: fc.integer({ min: 2, max: 40 }),
});
const input = fc.record({
  groups: fc.array(group, { minLength: 1, maxLength: 3 }),
  shards: fc.constantFrom(1, 2, 4),
  ranks: fc.constantFrom(1, 2, 3),
  shared: fc.boolean(),
  pieces: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 3 }),
  atOnce: fc.boolean(),
  local: fc.nat(8),
  lost: fc.array(fc.nat(1000), { maxLength: 2 }),
  stagedKeys: fc.option(fc.integer({ min: 1, max: 5 })),
  batchSlots: fc.integer({ min: 1, max: 4 }),
  keysPerBatchMax: fc.integer({ min: 1, max: 9 }),
  seed: fc.nat(),
});
type Input = typeof input extends fc.Arbitrary<infer Value> ? Value : never;

function setUp({ groups, shards, ranks, shared, batchSlots, keysPerBatchMax, seed }: Input) {
  const plain = hitRules({
    groups: groups.map(({ slidingWindow, ...given }) =>
      given.kind === "swa" ? { ...given, slidingWindow } : given,
    ),
    hashBlockSize: HASH,
  });
  const rules = { ...plain, uniform: false };
  const world = plannedWorld(rules, {
    ranks,
    ...(shared ? { putStep: ranks } : {}),
    // As in vLLM, only a single group of attention is cut in shards.
    valuesPerBlock: groups.length === 1 && groups[0]?.kind === "full" ? shards : 1,
    shape: { batchSlots, keysPerBatchMax },
    seed,
  });
  return { rules, world };
}

/** Saves the request in pieces; its blocks are numbered from 1 on. Returns its hash page and length. */
function saveAll({ pieces, atOnce }: Input, { rules, world }: ReturnType<typeof setUp>) {
  const saver = new SaverActor({ tables: world.tables, workers: world.workers, rules });
  const context = world.context();
  const tokensOf = pieces.map((_, index) =>
    pieces.slice(0, index + 1).reduce((all, piece) => all + piece * rules.blockTokens, 0),
  );
  const end = tokensOf.at(-1) ?? 0;
  let hashPage: number | undefined;
  tokensOf.forEach((tokens, job) => {
    hashPage = world.writeJob({
      job,
      kind: layout.JOB_KIND_SAVE,
      blocks: rowsOf(rules, tokens, 1),
      ...(hashPage === undefined ? {} : { hashPage }),
      planned: {
        tokens,
        hashes: end / HASH,
        boundaryPuts: rules.groups.flatMap(({ needs, spanTokens }, index) =>
          needs === "state" ? [[index, tokens / spanTokens, tokens] as const] : [],
        ),
      },
    });
    world.workers.forEach((_, worker) =>
      world.inbox.push({ kind: "save", job, ticket: 0, worker }),
    );
    if (!atOnce) world.run(saver, context);
  });
  world.run(saver, context);
  const reports = world.sent.filter((sent) => sent.kind === "saveDone");
  expect(reports.length).toBe(pieces.length * world.workers.length);
  for (const { outcome, failedBlocks } of reports)
    expect([outcome, failedBlocks]).toEqual([OUTCOME_HIT, 0]);
  return { hashPage: hashPage ?? 0, end };
}

it("blocks come back as they were saved", () => {
  let lostLoads = 0;
  const property = fc.property(input, (given) => {
    const setting = setUp(given);
    const { rules, world } = setting;
    const { hashPage, end } = saveAll(given, setting);
    const rank = given.seed % world.workers.length;
    const local = Math.min(given.local * rules.blockTokens, end);
    const hit = { hitTokens: end, localTokens: local, tailTokens: rules.groups.map(() => end) };
    const wanted = planLoad(rules, hit).flatMap(({ chunks, hashes }, index) =>
      [...chunks].map((chunk, at) => ({ index, chunk, hash: hashes[at] ?? 0 })),
    );
    const keys = wanted.flatMap(({ index, hash }) => valueKeys(world, index, hashPage, hash, rank));
    for (const key of keys) expect(world.pool.has(key)).toBe(true);
    for (const lost of given.lost) world.pool.remove(keys[lost % Math.max(1, keys.length)] ?? "");
    const bad = wanted.filter(({ index, hash }) =>
      valueKeys(world, index, hashPage, hash, rank).some((key) => !world.pool.has(key)),
    );
    const before = world.memory.slice();

    const rows = rowsOf(rules, end, 101, true);
    world.writeJob({
      job: 9,
      kind: layout.JOB_KIND_LOAD,
      slot: 1,
      blocks: rows,
      hashPage,
      planned: { ...hit, tokens: end, hashes: end / HASH },
    });
    world.inbox.push({ kind: "load", job: 9, ticket: 0, worker: rank });
    const bytes = BLOCK_BYTES / (world.workers[0]?.ownPrefixesOfGroup[0]?.length ?? 1);
    const staging =
      given.stagedKeys === null
        ? undefined
        : { budget: stagingBudget(given.stagedKeys * stagingBytes(bytes), 1), readsMax: 1 };
    const { tables, workers } = world;
    const loader = new LoaderActor({ tables, workers, rules, staging });
    world.run(loader, world.context());
    const [report] = world.sent.filter((sent) => sent.kind === "loadDone");

    const first = local / rules.blockTokens;
    const firstBad = Math.min(...bad.map(({ chunk }) => chunk));
    if (bad.length === 0)
      expect(report).toMatchObject({ outcome: OUTCOME_HIT, badChunk: layout.NONE });
    else {
      lostLoads++;
      expect(report?.outcome).toBe(OUTCOME_MISS);
      const badChunk = report?.badChunk ?? -1;
      if (rules.groups.length > 1) expect(badChunk).toBe(first);
      // In batches of a disk tier, everything from the failed one on is lost, at whatever key this rank begins.
      else if (staging !== undefined) expect(badChunk).toBeLessThanOrEqual(firstBad);
      else expect(badChunk).toBe(firstBad);
    }
    const usable = (chunk: number): boolean =>
      bad.length === 0 || (rules.groups.length === 1 && chunk < (report?.badChunk ?? 0));
    for (const { index, chunk } of wanted)
      if (usable(chunk))
        expect(world.block(index, 101 + chunk)).toEqual(world.block(index, 1 + chunk));
    // Nothing else was touched.
    for (const { index, chunk } of wanted) {
      const at = (index * 256 + 101 + chunk) * BLOCK_BYTES;
      before.set(world.memory.subarray(at, at + BLOCK_BYTES), at);
    }
    expect(Buffer.compare(before, world.memory)).toBe(0);
  });
  fc.assert(property, { numRuns: 200 });
  expect(lostLoads).toBeGreaterThan(30);
});
