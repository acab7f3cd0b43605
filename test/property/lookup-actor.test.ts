/**
 * Goal: for every kind of model the lookup actor answers what follows from the keys that are there, however its questions are cut
 * into batches and in whatever order these come back; a key that the engine cannot tell of is a failure or changes nothing.
 * Method: random groups, prefixes, batch sizes and absent keys; the actor on the simulated engine against `answerLookup` on the
 * same keys, and the keys that it asks against the plan.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { LookupActor } from "../../src/actors/lookup/lookup-actor.ts";
import * as layout from "../../src/blocks/layout.ts";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import type { HitGroupInput } from "../../src/keys/coordinator/hit-rules.ts";
import { answerLookup, lookupKeys, planLookup } from "../../src/keys/coordinator/lookup-plan.ts";
import type { LookupAnswer } from "../../src/keys/coordinator/lookup-plan.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { ActorWorld, range } from "../unit/store-world.ts";

const HASH_TOKENS = 4;

const group: fc.Arbitrary<HitGroupInput> = fc.record({
  kind: fc.constantFrom("full", "mla", "swa", "mamba"),
  spanTokens: fc.constantFrom(4, 8, 16),
  slidingWindow: fc.integer({ min: 2, max: 40 }),
});

const drawn = fc.record({
  groups: fc.array(group, { minLength: 1, maxLength: 3 }),
  ranks: fc.integer({ min: 1, max: 3 }),
  tokens: fc.integer({ min: 1, max: 160 }),
  /** Of the prompt's hashes, so many are missing at its end. */
  unhashed: fc.nat(3),
  partial: fc.boolean(),
  useEagle: fc.boolean(),
  keysPerBatchMax: fc.integer({ min: 1, max: 9 }),
  batchSlots: fc.integer({ min: 1, max: 4 }),
  seed: fc.nat(1000),
  absent: fc.array(fc.nat(200), { maxLength: 6 }),
  failing: fc.option(fc.nat(300), { freq: 3 }),
});

it("the actor answers what the keys say", () => {
  let failures = 0;
  let hits = 0;
  fc.assert(
    fc.property(drawn, (given) => {
      const rules = hitRules({
        groups: given.groups,
        hashBlockSize: HASH_TOKENS,
        useEagle: given.useEagle,
        cacheHitAlignmentTokens: given.partial ? HASH_TOKENS : null,
      });
      const { tokens, ranks } = given;
      const hashes = Math.max(0, Math.floor(tokens / HASH_TOKENS) - given.unhashed);
      const world = new ActorWorld({
        rules,
        ranks,
        seed: given.seed,
        shape: { batchSlots: given.batchSlots, keysPerBatchMax: given.keysPerBatchMax },
        dimensions: {
          blockSize: rules.blockTokens,
          hashBlockSize: HASH_TOKENS,
          groups: given.groups.length,
        },
      });
      const added = world.slots.addRequest({ tokens: [7], tokensMax: tokens });
      if (!added.ok) throw new Error(added.remedy);
      const { slot, generation } = added;
      const words = world.tables.requests.subarray(world.tables.request(slot));
      const hashPage = words[layout.REQUEST_HASH_PAGE] ?? 0;
      range(0, hashes).forEach((block) => world.writeHash(hashPage, block, block));

      // vLLM's order: groups, their hashes, their prefixes.
      const plan = planLookup(rules, { tokens, hashes });
      const prefixes = rules.groups.map(() => ranks);
      const exists = new Uint8Array(lookupKeys(plan, prefixes)).fill(1);
      for (const key of given.absent) if (key < exists.length) exists[key] = 0;
      let key = 0;
      plan.hashesOfGroup.forEach((asked, index) => {
        for (const hash of asked)
          for (const rank of range(0, ranks)) {
            const name = world.key(rank, index, hashPage, hash);
            if (exists[key++] === 1) world.pool.put(name, new Uint8Array(1));
          }
      });

      let asked = 0;
      world.faults = {
        keyResult: () => (asked++ === given.failing ? EngineCode.ENGINE_ERROR : 0),
      };
      const actor = new LookupActor({
        tables: world.tables,
        rules,
        keySpace: world.workers[0] ?? expect.unreachable("no worker"),
      });
      world.inbox.push({
        kind: "lookup",
        slot,
        generation,
        attempt: 1,
        tokens,
        hashedBlocks: hashes,
      });
      world.run(actor, world.context());

      const answer: LookupAnswer = answerLookup(rules, plan, prefixes, exists);
      const state = layout.lookupState(words[layout.REQUEST_LOOKUP_WORD] ?? 0);
      const hit = words[layout.REQUEST_HIT_TOKENS];
      expect(actor.idle()).toBe(true);
      expect(world.sent).toMatchObject([{ kind: "lookupDone", attempt: 1 }]);
      if (state === layout.LOOKUP_ENGINE_ERROR) {
        failures++;
        expect(given.failing).toBeLessThan(asked);
        expect(hit).toBe(0);
        return;
      }
      // A planned lookup needs every key that it asks for.
      if (!rules.uniform) {
        expect(asked).toBe(exists.length);
        expect(given.failing === null || given.failing >= asked).toBe(true);
      }
      expect(hit).toBe(answer.hitTokens);
      expect(state).toBe(answer.hitTokens > 0 ? layout.LOOKUP_HIT : layout.LOOKUP_MISS);
      if (answer.hitTokens === 0) return;
      hits++;
      const tails = range(0, rules.groups.length).map(
        (index) => words[layout.REQUEST_TAIL_TOKENS + index],
      );
      expect(tails).toEqual(rules.uniform ? tails.map(() => 0) : answer.tailTokens);
    }),
    { numRuns: 1_500 },
  );
  expect(failures).toBeGreaterThan(50);
  expect(hits).toBeGreaterThan(200);
});
