/**
 * Goal: whatever the pool answers, a load reports every block whose bytes did not come, a save marks as saved and tells of only
 * what the pool has, and each save reports its end exactly once.
 * Method: random rows, staging budgets, batch shapes and answers; the rule of loads with a model that notes what it gave, and the
 * real saver over the simulated engine and its pool.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { OUTCOME_HIT } from "../../src/actors/messages.ts";
import { SaverActor } from "../../src/actors/saver/saver-actor.ts";
import {
  ENTRY_BLOCK,
  ENTRY_WORDS,
  JOB_KIND_SAVE,
  OPERATION_PUT,
  REQUEST_GENERATION,
  REQUEST_HASH_PAGE,
  REQUEST_TOKEN_PAGE,
} from "../../src/blocks/layout.ts";
import { PageAllocator } from "../../src/blocks/page-arena.ts";
import { loadJob } from "../../src/connector/worker/load-job.ts";
import type { LoadEnd, LoadRank } from "../../src/connector/worker/load-job.ts";
import type { StoreJob, StoreRequest } from "../../src/connector/worker/store-requests.ts";
import { createEventRing } from "../../src/events/event-ring.ts";
import { KvEventWriter } from "../../src/events/event-records.ts";
import { KvEventSource } from "../../src/events/event-source.ts";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { planLoad, planSave } from "../../src/keys/coordinator/transfer-plan.ts";
import { stagingBudget } from "../../src/store/disk-split.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { plannedWorld, valueKeys } from "../unit/planned-transfers.ts";

const SPAN = 8;
const FULL = hitRules({ groups: [{ kind: "full", spanTokens: SPAN }], hashBlockSize: SPAN });
const TURN = { putStep: 1, putPhase: 0 };
/** Per request or batch: 0 gives all, 1 fails some keys, 2 fails as a whole. */
const moods = fc.array(fc.constantFrom(0, 0, 1, 2), { maxLength: 12 });
const bits = fc.array(fc.boolean(), { minLength: 1, maxLength: 20 });

function drive<End>(
  job: StoreJob<End>,
  answer: (request: StoreRequest, turn: number) => number[] | null,
): End {
  let step = job.next();
  for (let turn = 0; step.done !== true; turn++) step = job.next(answer(step.value, turn));
  return step.value;
}

describe("loads", () => {
  it("report every block that is not whole", () => {
    const input = fc.record({
      chunks: fc.integer({ min: 0, max: 20 }),
      local: fc.nat(20),
      shards: fc.integer({ min: 1, max: 3 }),
      tpRank: fc.nat(5),
      rawBytes: fc.option(fc.integer({ min: 10_000, max: 60_000 })),
      moods,
      bits,
    });
    fc.assert(
      fc.property(input, ({ chunks, local, shards, tpRank, rawBytes, moods: mood, bits: bad }) => {
        const blocks = Array.from({ length: chunks }, (_, chunk) => 100 + chunk);
        const rank: LoadRank = {
          rules: FULL,
          tpRank,
          shardsOfGroup: [shards],
          bytesOfGroup: [4096],
          staging: rawBytes === null ? null : stagingBudget(rawBytes),
        };
        const hit = { hitTokens: chunks * SPAN, localTokens: local * SPAN, tailTokens: [] };
        const came = new Map<number, number>();
        let asked = 0;
        const end: LoadEnd = drive(
          loadJob(rank, { ...hit, blocks: [blocks] }),
          ({ entries }, turn) => {
            const how = mood[turn] ?? 0;
            if (how === 2) return null;
            return Array.from({ length: entries.length / ENTRY_WORDS }, (_, index) => {
              asked++;
              if (how === 1 && bad[asked % bad.length] === true) return EngineCode.OBJECT_NOT_FOUND;
              const block = entries[index * ENTRY_WORDS + ENTRY_BLOCK] ?? 0;
              came.set(block, (came.get(block) ?? 0) + 1);
              return 4096;
            });
          },
        );
        const wanted = [...(planLoad(FULL, hit)[0]?.chunks ?? [])].map(
          (chunk) => blocks[chunk] ?? 0,
        );
        const missing = wanted.filter((block) => came.get(block) !== shards);
        for (const block of missing) expect(end.invalidBlocks).toContain(block);
        for (const block of end.invalidBlocks) expect(wanted).toContain(block);
        expect(end.loaded).toBe(end.invalidBlocks.length === 0);
      }),
      { numRuns: 1_000 },
    );
  });

  it("without keys end at once", () => {
    const rank = { rules: FULL, tpRank: 3, shardsOfGroup: [1], bytesOfGroup: [1], staging: null };
    const hit = { hitTokens: 2 * SPAN, localTokens: 2 * SPAN, tailTokens: [] };
    const first = loadJob(rank, { ...hit, blocks: [[1, 2]] }).next();
    expect(first).toEqual({ done: true, value: { loaded: true, invalidBlocks: [] } });
  });
});

describe("saves", () => {
  const rules = hitRules({
    groups: [
      { kind: "full", spanTokens: SPAN },
      { kind: "swa", spanTokens: SPAN, slidingWindow: 12 },
    ],
    hashBlockSize: SPAN,
    retentionInterval: 32,
  });
  const PROMPT_TOKENS = 60;
  const CHUNKS_MAX = 8 * 12;
  const input = fc.record({
    growth: fc.array(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 8 }),
    valuesPerBlock: fc.constantFrom(1, 2),
    keysPerBatchMax: fc.constantFrom(3, 256),
    moods,
    bits,
  });

  it("mark as saved and tell of only what the pool has, put nothing twice, and always end", () => {
    let marked = 0;
    let told = 0;
    const property = fc.property(input, (given) => {
      const world = plannedWorld(rules, {
        valuesPerBlock: given.valuesPerBlock,
        shape: { batchSlots: 2, keysPerBatchMax: given.keysPerBatchMax },
      });
      const { tables, workers } = world;
      let batches = 0;
      let keys = 0;
      let mood = 0;
      world.faults = {
        batchStatus: () => {
          mood = given.moods[batches++] ?? 0;
          return mood === 2 ? EngineCode.ENGINE_ERROR : 0;
        },
        keyResult: (operation) => {
          const fails = mood === 1 && given.bits[keys++ % given.bits.length] === true;
          return fails && operation === OPERATION_PUT ? EngineCode.NO_AVAILABLE_HANDLE : 0;
        },
      };
      const ring = createEventRing(1 << 15);
      const events = new KvEventWriter(ring, tables, SPAN);
      const source = new KvEventSource({
        rings: [ring],
        digestBytes: 32,
        integerHashes: false,
        groups: [],
      });
      const saver = new SaverActor({ tables, workers, rules, events });
      const context = world.context();
      const request = tables.request(0);
      tables.requests[request + REQUEST_GENERATION] = 1;
      tables.requests[request + REQUEST_TOKEN_PAGE] = new PageAllocator(tables.tokens).allocate(
        CHUNKS_MAX * SPAN,
      );
      const inPool = (hashPage: number, group: number, hash: number): boolean =>
        valueKeys(world, group, hashPage, hash).every((name) => world.pool.has(name));
      let hashPage: number | undefined;
      let tokens = 0;
      given.growth.forEach((chunks, job) => {
        tokens += chunks * SPAN;
        const row = Array.from({ length: tokens / SPAN }, (_, chunk) => 1 + chunk);
        hashPage = world.writeJob({
          job,
          kind: JOB_KIND_SAVE,
          blocks: [row, row],
          ...(hashPage === undefined ? {} : { hashPage }),
          planned: { tokens, promptTokens: PROMPT_TOKENS, hashes: CHUNKS_MAX },
        });
        const page = hashPage;
        tables.requests[request + REQUEST_HASH_PAGE] = page;
        world.sent.length = 0;
        world.inbox.push({ kind: "save", job, ticket: 0, worker: 0 });
        world.run(saver, context);
        expect(world.sent).toMatchObject([{ kind: "saveDone", job }]);
        const [report] = world.sent;
        const saved = saver.marks.end(0, 1, 0);
        if (report?.kind === "saveDone" && report.outcome === OUTCOME_HIT)
          expect(saved).toBe(tokens);
        marked += saved;
        const marks = { tokens: saved, savedTokens: 0, promptTokens: PROMPT_TOKENS };
        planSave(rules, marks, [TURN, TURN]).forEach(({ hashes }, group) => {
          for (const hash of hashes) expect(inPool(page, group, hash)).toBe(true);
        });
        for (const event of source.take()) {
          if (event.type !== "BlockStored") throw new Error(`a save told ${event.type}`);
          const { groupIndex, blockHashes } = event;
          expect([0, 1]).toContain(groupIndex);
          expect(blockHashes).toHaveLength(1);
          for (const digest of blockHashes) {
            if (!(digest instanceof Uint8Array)) throw new Error("a save told a hash's low bits");
            const hash = Buffer.from(digest).readInt32LE(0) - 1;
            expect(inPool(page, groupIndex!, hash)).toBe(true);
          }
          told++;
        }
      });
      // Values of a batch that failed as a whole may lie in the pool all the same.
      const unsaid = world.pool.size - saver.counters.writtenBlocks;
      expect(unsaid).toBeGreaterThanOrEqual(0);
      if (!given.moods.includes(2)) expect(unsaid).toBe(0);
      expect([source.lostEvents(), saver.idle()]).toEqual([0, true]);
    });
    fc.assert(property, { numRuns: 500 });
    expect(marked).toBeGreaterThan(0);
    expect(told).toBeGreaterThan(0);
  });
});
