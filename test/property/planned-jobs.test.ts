/**
 * Goal: whatever mix of groups a model has and in whatever order its jobs end, exactly the blocks of live jobs are held, null blocks
 * never, a load or save names what its request had when it was made, and nothing is left when all is over.
 * Method: random models, requests and steps on the real scheduler side; a plain model of rows and holds beside it.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { OUTCOME_ENGINE_ERROR, OUTCOME_HIT } from "../../src/actors/messages.ts";
import * as layout from "../../src/blocks/layout.ts";
import { addDoneLoad, addDoneSave, createConnectorOutput } from "../../src/connector/outputs.ts";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import type { HitGroupInput, HitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { ConnectorBench } from "../unit/connector-bench.ts";

const HASH = 4;
const TOKENS_MAX = 160;

const groupArbitrary: fc.Arbitrary<HitGroupInput> = fc.record({
  kind: fc.constantFrom("full" as const, "swa" as const, "mamba" as const),
  spanTokens: fc.constantFrom(4, 8, 16),
  slidingWindow: fc.integer({ min: 1, max: 40 }),
  eagle: fc.boolean(),
});
const modelArbitrary = fc
  .record({
    groups: fc.array(groupArbitrary, { minLength: 1, maxLength: 4 }),
    partial: fc.boolean(),
  })
  .map(({ groups, partial }) =>
    hitRules({ groups, hashBlockSize: HASH, cacheHitAlignmentTokens: partial ? HASH : null }),
  )
  .filter((rules) => !rules.uniform);

const actionArbitrary = fc.oneof(
  fc.record({ what: fc.constant("compute" as const), tokens: fc.integer({ min: 1, max: 40 }) }),
  fc.record({
    what: fc.constant("forget" as const),
    group: fc.nat(3),
    blocks: fc.integer({ min: 1, max: 3 }),
  }),
  fc.record({ what: fc.constant("end" as const), job: fc.nat(7), fails: fc.boolean() }),
  fc.record({ what: fc.constant("load" as const), units: fc.nat(20) }),
  fc.record({ what: fc.constant("preempt" as const) }),
);

class Model {
  readonly bench: ConnectorBench;
  readonly rules: HitRules;
  readonly slot: number;
  rows: number[][] = [];
  computed = 0;
  /** What each live job holds. */
  readonly held = new Map<number, number[]>();
  #next = 1;

  constructor(rules: HitRules, prompt: number) {
    this.rules = rules;
    this.bench = new ConnectorBench({
      rules,
      settings: { lookupAsync: true, loadRetriesMax: 1000, answerLifetimeMs: 0 },
      dimensions: {
        groups: rules.groups.length,
        groupSpanTokens: rules.groups.map((group) => group.spanTokens),
        blockSize: rules.blockTokens,
        hashBlockSize: HASH,
        blockCount: 4096,
      },
    });
    this.slot = this.bench.addRequest(prompt);
  }

  /** Rows with room for `tokens` tokens. */
  grow(tokens: number): void {
    this.rows = this.rules.groups.map(({ spanTokens }, group) => {
      const row = this.rows[group] ?? [];
      while (row.length * spanTokens < tokens) row.push(this.#next++);
      return row;
    });
    this.bench.setRows(this.slot, this.rows);
  }
  forget(group: number, blocks: number): void {
    const row = this.rows[group % this.rules.groups.length];
    // Only windows and states give blocks back.
    if (row === undefined || this.rules.groups[group % this.rows.length]?.needs === "all") return;
    for (let index = 0; index < Math.min(blocks, row.length); index++) row[index] = 0;
    this.bench.setRows(this.slot, this.rows);
  }

  step(): void {
    const metadata = this.bench.hooks.buildMetadata();
    this.bench.sides.startLoads(metadata);
    this.bench.sides.startSaves(metadata);
    for (const job of metadata.loads.subarray(0, metadata.loadCount)) this.#made(job, false);
    for (const job of metadata.saves.subarray(0, metadata.saveCount)) this.#made(job, true);
  }
  #made(job: number, save: boolean): void {
    const tokens = this.bench.job(job, layout.JOB_TOKENS);
    const held: number[] = [];
    this.rules.groups.forEach(({ needs, spanTokens }, group) => {
      const row = this.bench.row(job, group);
      const whole = this.rows[group] ?? [];
      const wanted = save
        ? needs === "state" || tokens === 0
          ? []
          : whole
        : whole.slice(0, Math.ceil(tokens / spanTokens));
      expect(row).toEqual(wanted);
      held.push(...row.filter((block) => block !== 0));
    });
    const puts = save ? this.bench.boundaries(job) : [];
    for (const [group = 0, block, end = 0] of puts) {
      const span = this.rules.groups[group]?.spanTokens ?? 1;
      expect(this.rows[group]?.[Math.ceil(end / span) - 1]).toBe(block);
      held.push(block ?? 0);
    }
    expect(save && tokens === 0 && puts.length === 0 && !this.rules.partialBlocks).toBe(false);
    this.held.set(job, held);
  }

  end(job: number, fails: boolean): void {
    const output = createConnectorOutput(64);
    const outcome = fails ? OUTCOME_ENGINE_ERROR : OUTCOME_HIT;
    const local = this.bench.job(job, layout.JOB_LOCAL_TOKENS);
    const save = this.bench.job(job, layout.JOB_KIND) === layout.JOB_KIND_SAVE;
    if (save) addDoneSave(output, job, outcome);
    else addDoneLoad(output, job, outcome, fails ? Math.floor(local / this.rules.blockTokens) : -1);
    this.bench.hooks.applyOutput(output);
    this.held.delete(job);
  }

  check(): void {
    const held = [...new Set([...this.held.values()].flat())].toSorted((a, b) => a - b);
    expect(this.bench.pinnedBlocks()).toEqual(held);
  }
}

test("rows and holds of planned jobs", () => {
  fc.assert(
    fc.property(
      modelArbitrary,
      fc.integer({ min: 1, max: TOKENS_MAX }),
      fc.array(actionArbitrary, { maxLength: 25 }),
      (rules, prompt, actions) => {
        const model = new Model(rules, prompt);
        const { hooks } = model.bench;
        for (const action of actions) {
          const loading = hooks.loading(model.slot);
          if (action.what === "compute" && !loading) {
            const tokens = Math.min(action.tokens, prompt - model.computed);
            if (tokens <= 0) continue;
            model.grow(model.computed + tokens);
            hooks.scheduled(model.slot, model.computed, tokens);
            model.computed += tokens;
            model.step();
          } else if (action.what === "forget") model.forget(action.group, action.blocks);
          else if (action.what === "end") {
            const job = [...model.held.keys()][action.job];
            if (job !== undefined) model.end(job, action.fails);
          } else if (action.what === "load" && model.computed === 0 && !loading) {
            const hit = action.units * rules.alignmentTokens;
            if (hit === 0 || hit >= prompt) continue;
            hooks.matchedTokens(model.slot, 0);
            model.bench.answerHit(model.slot, hit);
            if (hooks.matchedTokens(model.slot, 0) !== hit) continue;
            model.grow(hit);
            hooks.blocksAllocated(model.slot, hit);
            model.step();
          } else if (action.what === "preempt") {
            hooks.preempted(model.slot);
            model.rows = [];
            model.computed = 0;
            model.bench.closeRow(model.slot);
          }
          model.check();
        }
        hooks.requestFinished(model.slot);
        model.bench.closeRow(model.slot);
        for (const job of model.held.keys()) model.end(job, false);
        model.check();
        expect([hooks.liveJobs(), hooks.quarantinedBlocks()]).toEqual([0, 0]);
        expect(model.bench.blockPages.usedPages()).toBe(0);
      },
    ),
    { numRuns: 300 },
  );
});
