/**
 * Goal: the lookup actor asks the pool for the keys that vLLM asks for, and publishes vLLM's hit and tails, for every kind of
 * model. (golden-files.test.ts compares the rule alone.)
 * Method: all cases of the golden file through the real actor on real tables; a scripted channel answers which keys exist.
 */
import { expect, it } from "vitest";
import { LookupActor } from "../../src/actors/lookup/lookup-actor.ts";
import * as layout from "../../src/blocks/layout.ts";
import { poolKey, poolKeyPrefixes } from "../../src/keys/pool-keys.ts";
import { planLookup } from "../../src/keys/coordinator/lookup-plan.ts";
import type { HitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { keyText } from "../../src/store/model-engine.ts";
import { ActorWorld } from "../unit/store-world.ts";
import { ScriptedChannel } from "./scripted-channel.ts";
import { hitRulesOf, kindsOf, namespaceOf, readVectors, topologyOf } from "./vectors.ts";
import type { VectorConfig } from "./vectors.ts";

interface HitCase {
  readonly config: VectorConfig;
  readonly num_tokens: number;
  readonly hashes: readonly string[];
  readonly candidates: number;
  readonly missing: readonly number[];
  readonly hit_tokens: number;
  readonly tail_key_boundaries: readonly (readonly [number, number])[];
}

const { cases } = readVectors<{ cases: HitCase[] }>("lookup_hits");
const DIGEST_BYTES = 32;

it("is compared in all 192 cases, of these 156 of hybrid models, windows, drafters and partial blocks", () => {
  expect(cases.length).toBe(192);
  expect(cases.filter(({ config }) => !hitRulesOf(config).uniform).length).toBe(156);
});

it.each(cases.map((one, index) => [index, kindsOf(one.config), one] as const))(
  "asks what vLLM asks and answers what vLLM answers (%i, %s)",
  (_, __, one) => {
    const bench = new LookupBench(one);
    const missing = new Set(one.missing.map((index) => bench.keys[index]));
    const asked = bench.run((key) => (missing.has(key) ? 0 : 1));
    expect(asked).toEqual(bench.keys);
    expect(bench.keys.length).toBe(one.candidates);
    const hit = one.hit_tokens;
    expect(bench.answer()).toEqual([hit > 0 ? layout.LOOKUP_HIT : layout.LOOKUP_MISS, hit]);
    if (!bench.rules.uniform) expect(bench.tails(hit)).toEqual(one.tail_key_boundaries);
    // Where the actor leaves tails out, loads name the last block by the hit itself.
    else for (const [, tokens] of one.tail_key_boundaries) expect(tokens).toBe(hit);
  },
);

class LookupBench {
  readonly rules: HitRules;
  /** All keys of the lookup in vLLM's order. */
  readonly keys: string[] = [];
  readonly #world: ActorWorld;
  readonly #one: HitCase;
  readonly #prefixes: readonly string[];
  readonly #actor: LookupActor;

  constructor(one: HitCase) {
    this.#one = one;
    const topology = topologyOf(one.config, { tp: 0, pp: 0, pcp: 0, dcp: 0 });
    const { groups } = poolKeyPrefixes(topology, namespaceOf(one.config));
    this.rules = hitRulesOf(one.config);
    this.#prefixes = groups.flatMap((group) => group.lookup);
    const dimensions = {
      blockSize: this.rules.blockTokens,
      hashBlockSize: this.rules.hashBlockSize,
      groups: groups.length,
    };
    this.#world = new ActorWorld({ dimensions });
    let next = 0;
    const lookupPrefixesOfGroup = groups.map(({ lookup }) => lookup.map(() => next++));
    const { tables } = this.#world;
    const keySpace = { keySpaceId: 0, lookupPrefixesOfGroup };
    this.#actor = new LookupActor({ tables, rules: this.rules, keySpace });
    const plan = planLookup(this.rules, { tokens: one.num_tokens, hashes: one.hashes.length });
    plan.hashesOfGroup.forEach((hashes, group) => {
      for (const hash of hashes)
        for (const prefix of groups[group]?.lookup ?? [])
          this.keys.push(poolKey(prefix, one.hashes[hash] ?? ""));
    });
  }

  /** Runs the lookup; the keys that it asked for. */
  run(exists: (key: string) => number): string[] {
    const { tables, inbox, slots } = this.#world;
    const added = slots.addRequest({
      tokens: Array.from({ length: this.#one.num_tokens }, (_, token) => token),
      tokensMax: this.#one.num_tokens,
    });
    if (!added.ok) throw new Error(added.remedy);
    const { slot, generation } = added;
    const hashPage = tables.requests[tables.request(slot) + layout.REQUEST_HASH_PAGE] ?? 0;
    this.#one.hashes.forEach((hex, block) => {
      const { words } = tables.hashes;
      const at = words.byteOffset + tables.hashes.offset(hashPage, block) * 4;
      new Uint8Array(words.buffer, at, DIGEST_BYTES).set(Buffer.from(hex, "hex"));
    });
    const asked: string[] = [];
    const channel = new ScriptedChannel((entries) => {
      const keys = this.#keysOf(entries);
      asked.push(...keys);
      return keys.map(exists);
    });
    const question = { tokens: this.#one.num_tokens, hashedBlocks: this.#one.hashes.length };
    inbox.push({ kind: "lookup", slot, generation, attempt: 1, ...question });
    const context = this.#world.context(1, channel);
    // Each step sees what the channel answered to the one before.
    for (let turn = 0; turn < 10 && this.#world.sent.length === 0; turn++)
      this.#world.step(this.#actor, context);
    expect(this.#world.sent).toMatchObject([{ kind: "lookupDone", attempt: 1 }]);
    expect(this.#world.hashed).toEqual([]);
    return asked;
  }

  answer(): number[] {
    return [
      layout.lookupState(this.#word(layout.REQUEST_LOOKUP_WORD)),
      this.#word(layout.REQUEST_HIT_TOKENS),
    ];
  }
  tails(hit: number): number[][] {
    if (hit === 0) return [];
    return this.rules.groups.map((_, group) => [
      group,
      this.#word(layout.REQUEST_TAIL_TOKENS + group),
    ]);
  }

  #word(word: number): number {
    return this.#world.tables.requests[word] ?? 0;
  }

  #keysOf(entries: Int32Array): string[] {
    const space = {
      prefixes: this.#prefixes,
      hashBytes: DIGEST_BYTES,
      hashes: this.#world.tables.hashes,
      groups: [],
    };
    const keys: string[] = [];
    for (let at = 0; at < entries.length; at += layout.ENTRY_WORDS) {
      const prefix = entries[at + layout.ENTRY_PREFIX] ?? 0;
      keys.push(keyText(space, prefix, entries[at + layout.ENTRY_HASH_ROW] ?? 0) ?? "");
    }
    return keys;
  }
}
