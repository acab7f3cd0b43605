/**
 * Goal: lookups that another process answers: one question each, with all hashes of the prompt, never more than there is room for;
 * an answer that cannot be one of this model is a failure; discards and deaths end as they do with the engine.
 * Method: the real lookup actor on real tables; the other process is a list of questions that the test answers.
 */
import { describe, expect, test } from "vitest";
import { LookupActor } from "../../src/actors/lookup/lookup-actor.ts";
import { checkedAnswer } from "../../src/actors/lookup/remote-answer.ts";
import { OUTCOME_ENGINE_DOWN, OUTCOME_HIT } from "../../src/actors/messages.ts";
import type {
  ActorContext,
  RemoteAnswer,
  RemoteLookups,
  RemoteQuestion,
} from "../../src/actors/step.ts";
import * as layout from "../../src/blocks/layout.ts";
import { writeQuestion } from "../../src/connector/lookup-question.ts";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { ActorWorld, range } from "./store-world.ts";

class RemoteBench implements RemoteLookups {
  readonly world = new ActorWorld({ dimensions: { groups: 2 } });
  readonly asked: RemoteQuestion[] = [];
  readonly #answers: RemoteAnswer[] = [];
  #open = 0;
  lookup = this.create();

  create(): LookupActor {
    const { tables, rules } = this.world;
    const keySpace = this.world.workers[0] ?? expect.unreachable("no worker");
    this.lookup = new LookupActor({ tables, rules, keySpace, remote: true });
    return this.lookup;
  }
  room(): number {
    return 2 - this.#open;
  }
  ask(question: RemoteQuestion): void {
    this.#open++;
    this.asked.push(question);
  }
  poll(): RemoteAnswer | null {
    const answer = this.#answers.shift() ?? null;
    if (answer !== null) this.#open--;
    return answer;
  }

  add(promptTokens: number): number {
    const added = this.world.slots.addRequest({
      tokens: range(0, promptTokens),
      tokensMax: promptTokens,
    });
    if (!added.ok) throw new Error(added.remedy);
    return added.slot;
  }
  question(slot: number, attempt: number, tokens: number): void {
    this.world.inbox.push(writeQuestion(this.world.tables, slot, attempt, tokens, 0));
  }
  step(context: ActorContext = this.context()): void {
    this.world.step(this.lookup, context);
  }
  context(epoch = 1): ActorContext {
    return { ...this.world.context(epoch), remoteLookups: this };
  }
  reply(hitTokens: number, outcome = OUTCOME_HIT): void {
    const { record } = this.asked.shift() ?? expect.unreachable("nothing was asked");
    this.#answers.push({ record, outcome, hitTokens, tails: [] });
  }
  answer(slot: number): number[] {
    const words = this.world.tables.requests.subarray(this.world.tables.request(slot));
    const word = words[layout.REQUEST_LOOKUP_WORD] ?? 0;
    return [layout.lookupState(word), words[layout.REQUEST_HIT_TOKENS] ?? 0];
  }
}

describe("questions", () => {
  test("hold the hashes of all whole blocks; a prompt without any is a miss and asks nobody", () => {
    const bench = new RemoteBench();
    const [long, short] = [bench.add(41), bench.add(3)];
    bench.question(long, 1, 41);
    bench.question(short, 1, 3);
    bench.step();
    expect(bench.answer(short)).toEqual([layout.LOOKUP_MISS, 0]);
    expect(bench.asked).toMatchObject([{ tokens: 41 }]);
    const { hashes = new Int32Array(0) } = bench.asked[0] ?? {};
    const marks = range(0, 10).map((block) => hashes[block * layout.HASH_STRIDE_WORDS]);
    expect(marks).toEqual(range(1, 11));
    expect(hashes).toHaveLength(10 * layout.HASH_STRIDE_WORDS);
    bench.reply(36);
    bench.step();
    expect(bench.answer(long)).toEqual([layout.LOOKUP_HIT, 36]);
    expect(bench.lookup.idle()).toBe(true);
  });

  test("wait for room, in turn", () => {
    const bench = new RemoteBench();
    const slots = range(0, 5).map(() => bench.add(20));
    for (const slot of slots) bench.question(slot, 1, 20);
    bench.step();
    for (let left = 5; left > 0; left--) {
      expect(bench.asked.length).toBe(Math.min(2, left));
      bench.reply(4 * (left - 1));
      bench.step();
    }
    expect(slots.map((slot) => bench.answer(slot)[1])).toEqual([16, 12, 8, 4, 0]);
    expect(bench.lookup.counters.channelFull).toBeGreaterThan(0);
  });

  test("that nobody answers are failures; a discarded one ends with its answer", () => {
    const bench = new RemoteBench();
    const [failing, discarded] = [bench.add(20), bench.add(20)];
    bench.question(failing, 1, 20);
    bench.question(discarded, 7, 20);
    bench.step();
    const generation = 1;
    bench.world.inbox.push({ kind: "discardLookup", slot: discarded, generation, attempt: 7 });
    bench.step();
    expect(bench.world.sent).toEqual([]);
    bench.reply(0, OUTCOME_ENGINE_DOWN);
    bench.reply(16);
    bench.step();
    expect(bench.answer(failing)).toEqual([layout.LOOKUP_ENGINE_DOWN, 0]);
    expect(bench.answer(discarded)).toEqual([layout.LOOKUP_IDLE, 0]);
    expect(bench.world.sent).toMatchObject([{ attempt: 1 }, { attempt: 7 }]);
    expect(bench.lookup.idle()).toBe(true);
  });

  test("of a dead actor are asked again by its successor", () => {
    const bench = new RemoteBench();
    const slot = bench.add(20);
    bench.question(slot, 3, 20);
    bench.step();
    bench.asked.length = 0;
    bench.create();
    bench.step(bench.context(2));
    bench.reply(12);
    bench.step(bench.context(2));
    expect(bench.answer(slot)).toEqual([layout.LOOKUP_HIT, 12]);
  });
});

describe("answers", () => {
  const full = { kind: "full" as const, spanTokens: 8 };
  const uniform = hitRules({ groups: [full], hashBlockSize: 4 });
  const hybrid = hitRules({
    groups: [full, { kind: "mamba", spanTokens: 16 }],
    hashBlockSize: 4,
    cacheHitAlignmentTokens: 4,
  });
  const asked = { tokens: 41, hashes: 10 };

  test.each([
    [16, []],
    [32, [[0, 32]]],
  ] as const)("a hit of %i tokens with tails %j", (hitTokens, tails) => {
    const answer = { hitTokens, tailTokens: [] };
    expect(checkedAnswer(uniform, asked, { hitTokens, tails })).toEqual(answer);
  });

  test("tails of a planned hit; an older server's are the hit itself", () => {
    const tails = [
      [0, 20],
      [1, 32],
    ] as const;
    const hitTokens = 20;
    expect(checkedAnswer(hybrid, asked, { hitTokens, tails })?.tailTokens).toEqual([20, 32]);
    expect(checkedAnswer(hybrid, asked, { hitTokens, tails: [] })?.tailTokens).toEqual([20, 20]);
    expect(checkedAnswer(hybrid, asked, { hitTokens: 0, tails: [] })?.hitTokens).toBe(0);
  });

  test.each([
    ["inside of a block", uniform, 12, []],
    ["all tokens", uniform, 48, []],
    ["beyond the hashes", uniform, 40, [], 9],
    ["a group that is not there", hybrid, 20, [[2, 20]]],
    ["a tail before the hit", hybrid, 20, [[1, 16]]],
    ["a tail in another block", hybrid, 20, [[1, 36]]],
    ["a tail inside of a hash block", hybrid, 20, [[1, 22]]],
  ] as const)("%s cannot be", (_, rules, hitTokens, tails, hashes?: number) => {
    const question = { ...asked, hashes: hashes ?? asked.hashes };
    expect(checkedAnswer(rules, question, { hitTokens, tails })).toBeNull();
  });
});
