/**
 * Goal: a slot's record and rows hold what was given, refusals change nothing, and nothing leaks. Method: real tables, read
 * back word by word.
 */
import { describe, expect, test } from "vitest";
import {
  NONE,
  REQUEST_EXTRAS_PAGE,
  REQUEST_FLAGS,
  REQUEST_GENERATION,
  REQUEST_HASH_PAGE,
  REQUEST_LIVE_WORD,
  REQUEST_LOGPROBS,
  REQUEST_PROMPT_TOKENS,
  REQUEST_SEED,
  REQUEST_TEMPERATURE_F32,
  REQUEST_TOKEN_PAGE,
  REQUEST_TOKENS_MAX,
  REQUEST_TOP_P_F32,
} from "../../src/blocks/layout.ts";
import { RequestSlots } from "../../src/blocks/request-slots.ts";
import type { Tables } from "../../src/blocks/tables.ts";
import { smallTables } from "./small-tables.ts";

function create(requestSlots = 2, tokensMax = 8_000): { tables: Tables; slots: RequestSlots } {
  const tables = smallTables({
    requestSlots,
    jobSlots: 1,
    tokensPerRequestMax: 4_000,
    tokensMax,
    blockCount: 16,
  });
  return { tables, slots: new RequestSlots(tables) };
}

const IDLE = { slots: 0, tokenPages: 0, hashPages: 0 };

describe("request slots", () => {
  test("record, token row over several pages, sampling and flags", () => {
    const { tables, slots } = create();
    const tokens = Int32Array.from({ length: 2_500 }, (_, index) => index * 7);
    const sampling = { temperature: 0.5, topP: 0.25, seed: -3, logprobs: 4 };
    const added = slots.addRequest({ tokens, tokensMax: 2_600, sampling, flags: 2 });
    if (!added.ok) expect.unreachable(added.remedy);
    else {
      const at = tables.request(added.slot);
      const word = (index: number): number => tables.requests[at + index]!;
      expect([word(REQUEST_GENERATION), word(REQUEST_LIVE_WORD)]).toEqual([added.generation, 1]);
      expect([word(REQUEST_PROMPT_TOKENS), word(REQUEST_TOKENS_MAX)]).toEqual([2_500, 2_600]);
      expect([word(REQUEST_FLAGS), word(REQUEST_SEED), word(REQUEST_LOGPROBS)]).toEqual([2, -3, 4]);
      expect(tables.requestsF32[at + REQUEST_TEMPERATURE_F32]).toBe(0.5);
      expect(tables.requestsF32[at + REQUEST_TOP_P_F32]).toBe(0.25);
      const row = tokens.map((_, index) => tables.tokens.get(word(REQUEST_TOKEN_PAGE), index));
      expect(row).toEqual(tokens);
      expect(word(REQUEST_EXTRAS_PAGE)).toBe(NONE);
      // Room for every hash that the request may ever have.
      tables.hashes.offset(word(REQUEST_HASH_PAGE), Math.floor(2_600 / 16) - 1);
      expect(slots.usage()).toEqual({ slots: 1, tokenPages: 3, hashPages: 3 });
      slots.release(added.slot);
      expect([word(REQUEST_LIVE_WORD), slots.usage()]).toEqual([0, IDLE]);
      expect(() => slots.release(added.slot)).toThrowError(/UNKNOWN|not in use/);
    }
  });

  test("a plain array is copied too; generations tell the users of a slot apart", () => {
    const { tables, slots } = create(1);
    const first = slots.addRequest({ tokens: [5, 6, 7], tokensMax: 3 });
    if (!first.ok) throw new Error(first.remedy);
    expect(tables.tokens.get(tables.requests[REQUEST_TOKEN_PAGE]!, 2)).toBe(7);
    slots.release(first.slot);
    const second = slots.addRequest({ tokens: [1], tokensMax: 1 });
    expect(second).toEqual({ ok: true, slot: 0, generation: first.generation + 1 });
  });

  test("the extra-key stream has a length word for every block, also for those of the answer", () => {
    const { tables, slots } = create();
    const extras = Int32Array.of(5, 0x11111111, 0x22, 0, 4, 0x33333333);
    const added = slots.addRequest({ tokens: new Int32Array(48), tokensMax: 100, extras });
    if (!added.ok) throw new Error(added.remedy);
    const page = tables.requests[tables.request(added.slot) + REQUEST_EXTRAS_PAGE]!;
    const words = Array.from({ length: 9 }, (_, index) => tables.tokens.get(page, index));
    expect(words).toEqual([...extras, 0, 0, 0]);
    slots.release(added.slot);
    expect(slots.usage()).toEqual(IDLE);
  });

  test("refusals are values with a remedy and change nothing", () => {
    const { slots } = create(2, 1_000);
    const long = slots.addRequest({ tokens: new Int32Array(4_001), tokensMax: 4_001 });
    expect(long).toMatchObject({ ok: false, reason: "TOO_LONG" });
    const answer = slots.addRequest({ tokens: new Int32Array(3_999), tokensMax: 4_005 });
    expect(answer).toEqual({
      ok: false,
      reason: "TOO_LONG",
      remedy: "Ask for at most 1 tokens after the prompt instead of 6.",
    });
    expect(slots.usage()).toEqual(IDLE);
    // A request of 2000 tokens takes 3 of the 4 hash pages that tables for 1000 tokens have.
    expect(slots.addRequest({ tokens: [1], tokensMax: 2_000 }).ok).toBe(true);
    const usage = slots.usage();
    const full = slots.addRequest({ tokens: [1], tokensMax: 2_000 });
    expect(full).toMatchObject({ ok: false, reason: "CAPACITY" });
    expect(slots.usage()).toEqual(usage);
    expect(slots.addRequest({ tokens: [1], tokensMax: 16 }).ok).toBe(true);
    expect(slots.addRequest({ tokens: [1], tokensMax: 16 })).toMatchObject({ reason: "CAPACITY" });
  });

  test("an empty prompt and a tokensMax below the prompt are errors", () => {
    const { slots } = create();
    expect(() => slots.addRequest({ tokens: [], tokensMax: 5 })).toThrowError(/tokens: is empty/);
    expect(() => slots.addRequest({ tokens: [1, 2], tokensMax: 1 })).toThrowError(
      /tokensMax: is below/,
    );
  });
});
