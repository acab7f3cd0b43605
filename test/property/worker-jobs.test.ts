/**
 * Goal: whatever the pool answers, a load reports every block whose bytes did not come, a save marks as saved only what the pool
 * has, and each save reports its end exactly once.
 * Method: random hybrid models, rows, staging budgets and answers; a model pool notes what it really holds or gave.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  ENTRY_BLOCK,
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_PREFIX,
  ENTRY_WORDS,
} from "../../src/blocks/layout.ts";
import { loadJob } from "../../src/connector/worker/load-job.ts";
import type { LoadEnd, LoadRank } from "../../src/connector/worker/load-job.ts";
import { saveJob } from "../../src/connector/worker/save-job.ts";
import type { SaveEnd } from "../../src/connector/worker/save-job.ts";
import { SaveLedger } from "../../src/connector/worker/save-ledger.ts";
import type { StoreJob, StoreRequest } from "../../src/connector/worker/store-requests.ts";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { planLoad, planSave } from "../../src/keys/coordinator/transfer-plan.ts";
import { stagingBudget } from "../../src/store/disk-split.ts";
import { EngineCode } from "../../src/store/engine.ts";

const SPAN = 8;
const FULL = hitRules({ groups: [{ kind: "full", spanTokens: SPAN }], hashBlockSize: SPAN });
const TURN = { putStep: 1, putPhase: 0 };
const key = (entries: Int32Array, at: number): string =>
  [ENTRY_GROUP, ENTRY_PREFIX, ENTRY_HASH_ROW].map((word) => entries[at + word]).join(":");
/** Per request: 0 gives all, 1 fails some keys, 2 fails as a whole. */
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
  const rank = { rules, turns: [TURN, TURN], shardsOfGroup: [2, 2], events: false };

  it("mark as saved only what the pool has, and always end", () => {
    const jobs = fc.array(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 8 });
    fc.assert(
      fc.property(jobs, moods, bits, (growth, mood, bad) => {
        const ledger = new SaveLedger();
        const pool = new Set<string>();
        let tokens = 0;
        let turns = 0;
        let asked = 0;
        growth.forEach((chunks, number) => {
          tokens += chunks * SPAN;
          const row = Array.from({ length: tokens / SPAN }, (_, chunk) => 1 + chunk);
          const identity = { request: "r", job: number };
          ledger.queued(identity);
          const job = {
            ...identity,
            tokens,
            promptTokens: 60,
            hashes: tokens / SPAN,
            blocks: [row, row],
            boundaryPuts: [],
            eventTokens: null,
          };
          const end: SaveEnd = drive(saveJob(rank, ledger, job), ({ operation, entries }) => {
            const how = mood[turns++] ?? 0;
            if (how === 2) return null;
            return Array.from({ length: entries.length / ENTRY_WORDS }, (_, index) => {
              const name = key(entries, index * ENTRY_WORDS);
              if (operation === "exists") return pool.has(name) ? 1 : 0;
              asked++;
              if (how === 1 && bad[asked % bad.length] === true)
                return EngineCode.NO_AVAILABLE_HANDLE;
              expect(pool.has(name)).toBe(false);
              pool.add(name);
              return 0;
            });
          });
          expect(ledger.takeCompleted()).toEqual([number]);
          for (const { group, hash } of end.stored)
            expect([0, 1].every((shard) => pool.has(`${group}:${shard}:${hash}`))).toBe(true);
          if (end.kind === "saved") expect(ledger.savedTokens("r")).toBe(tokens);
          const saved = { tokens: ledger.savedTokens("r"), savedTokens: 0, promptTokens: 60 };
          planSave(rules, saved, rank.turns).forEach(({ hashes }, group) => {
            for (const hash of hashes) expect(pool.has(`${group}:1:${hash}`)).toBe(true);
          });
        });
      }),
      { numRuns: 500 },
    );
  });

  it("end also when they are abandoned, and a stale one changes nothing", () => {
    const ledger = new SaveLedger();
    const job = {
      request: "r",
      job: 7,
      tokens: SPAN,
      promptTokens: null,
      hashes: 1,
      blocks: [[5], [5]],
      boundaryPuts: [],
      eventTokens: null,
    };
    ledger.queued(job);
    const steps = saveJob(rank, ledger, job);
    expect(steps.next().done).toBe(false);
    steps.return({ kind: "failed", stored: [], eventTokens: null });
    expect(ledger.takeCompleted()).toEqual([7]);
    ledger.queued({ request: "r", job: 8 });
    ledger.forget("r");
    ledger.queued({ request: "r", job: 9 });
    const stale = saveJob(rank, ledger, { ...job, job: 8 }).next();
    expect(stale).toMatchObject({ done: true, value: { kind: "stale" } });
    expect([...ledger.takeCompleted(), ledger.savedTokens("r")]).toEqual([8, 0]);
    expect(ledger.isLive({ request: "r", job: 9 })).toBe(true);
  });
});
