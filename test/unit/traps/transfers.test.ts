/**
 * Goal: the traps of loads and lookups. After a failed sub-batch every later block is reported, also when nothing of it was asked
 * for; a load without keys ends; one value above the staging buffer fails the whole load; a peer's broken lookup is answered and the
 * next one served; replies of older servers are understood.
 * Method: the load rule with scripted answers; frames of the lookup RPC by hand.
 */
import { describe, expect, test } from "vitest";
import { ENTRY_BLOCK, ENTRY_WORDS } from "../../../src/blocks/layout.ts";
import { loadJob } from "../../../src/connector/worker/load-job.ts";
import type { LoadEnd, LoadRank } from "../../../src/connector/worker/load-job.ts";
import type { StoreAnswer } from "../../../src/connector/worker/store-requests.ts";
import {
  decodeLookupReply,
  decodeWireRequest,
  encodeLookupReply,
  encodeLookupRequest,
  LOOKUP_TAG,
} from "../../../src/connector/lookup-wire.ts";
import { MooncakeKvError } from "../../../src/errors.ts";
import { hitRules } from "../../../src/keys/coordinator/hit-rules.ts";
import { getRotation } from "../../../src/keys/pool-keys.ts";
import { stagingBudget } from "../../../src/store/disk-split.ts";

const SPAN = 16;
const KIB = 1024;
/** Two values of 4 KiB fit a batch: each takes a page and two of padding. */
const RANK: LoadRank = {
  rules: hitRules({ groups: [{ kind: "full", spanTokens: SPAN }], hashBlockSize: SPAN }),
  tpRank: 0,
  shardsOfGroup: [1],
  bytesOfGroup: [4 * KIB],
  staging: stagingBudget(30 * KIB),
};

/** Runs a load of `blocks` blocks with one answer a batch; returns its end and the blocks that were asked for. */
function load(
  rank: LoadRank,
  blocks: number,
  answers: readonly StoreAnswer[],
): { end: LoadEnd; asked: number[][] } {
  const job = loadJob(rank, {
    hitTokens: blocks * SPAN,
    localTokens: 0,
    tailTokens: [blocks * SPAN],
    blocks: [Array.from({ length: blocks }, (_, index) => 10 + index)],
  });
  const asked: number[][] = [];
  let step = job.next();
  while (step.done !== true) {
    const { entries } = step.value;
    asked.push(Array.from(entries.filter((_, word) => word % ENTRY_WORDS === ENTRY_BLOCK)));
    step = job.next(answers[asked.length - 1] ?? null);
  }
  return { end: step.value, asked };
}

describe("traps 9 and 14: what a failed sub-batch leaves", () => {
  test("every block from that sub-batch on is reported, and nothing later is asked for", () => {
    const { end, asked } = load(RANK, 6, [
      [1, 1],
      [1, -704],
    ]);
    expect(asked).toEqual([
      [10, 11],
      [12, 13],
    ]);
    expect(end).toEqual({ loaded: false, invalidBlocks: [12, 13, 14, 15] });
  });

  test("a call that threw is a failure of all its blocks and of those behind", () => {
    const { end } = load(RANK, 4, [null]);
    expect(end).toEqual({ loaded: false, invalidBlocks: [10, 11, 12, 13] });
  });

  test("a load without keys ends at once and divides by nothing", () => {
    expect(load(RANK, 0, [])).toEqual({ end: { loaded: true, invalidBlocks: [] }, asked: [] });
    expect(getRotation(3, 0)).toBe(0);
  });

  test("a value above the raw budget fails the load as a whole, unasked", () => {
    const { end, asked } = load({ ...RANK, bytesOfGroup: [64 * KIB] }, 3, []);
    expect(asked).toEqual([]);
    expect(end).toEqual({ loaded: false, invalidBlocks: [10, 11, 12] });
  });
});

describe("trap 9: a broken question must not end the lookup service", () => {
  const good = encodeLookupRequest({ tokens: 5, hashBytes: 2, hashes: Uint8Array.of(1, 2) });
  const [tag = LOOKUP_TAG, tokens = LOOKUP_TAG, length = LOOKUP_TAG, hashes = LOOKUP_TAG] = good;
  test.each([
    ["no frames", []],
    ["another tag", [Buffer.from("look"), tokens, length, hashes]],
    ["too few frames", [tag, tokens]],
    ["tokens of three bytes", [tag, tokens.subarray(1), length, hashes]],
    ["half a hash", [tag, tokens, length, hashes.subarray(1)]],
    ["hashes of no length", [tag, tokens, Uint8Array.of(0, 0), hashes]],
  ])("%s: an error to answer with, and the next question is read", (_name, frames) => {
    expect(() => decodeWireRequest(frames)).toThrow(MooncakeKvError);
    expect(decodeWireRequest(good)).toMatchObject({ kind: "lookup", tokens: 5, hashBytes: 2 });
  });
});

describe("trap 7: lookup frames", () => {
  test("the question: a tag, big-endian numbers, the hashes in a row", () => {
    const frames = encodeLookupRequest({
      tokens: 0x0102,
      hashBytes: 4,
      hashes: Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8),
    });
    expect(frames.map((frame) => Buffer.from(frame).toString("hex"))).toEqual([
      Buffer.from("lookup").toString("hex"),
      "00000102",
      "0004",
      "0102030405060708",
    ]);
  });

  test("the answer: the hit, and eight bytes a group when there is one", () => {
    const reply = { hitTokens: 32, tails: [[0, 32] as const, [1, 48] as const] };
    expect(Buffer.from(encodeLookupReply(reply)).toString("hex")).toBe(
      ["00000020", "0000000000000020", "0000000100000030"].join(""),
    );
    expect(encodeLookupReply({ hitTokens: 0, tails: [] })).toEqual(new Uint8Array(4));
    expect(decodeLookupReply(encodeLookupReply(reply))).toEqual(reply);
  });

  test("older servers answer four bytes; what is no answer is a miss, not an error", () => {
    expect(decodeLookupReply(Uint8Array.of(0, 0, 1, 0))).toEqual({ hitTokens: 256, tails: [] });
    for (const length of [0, 3, 5, 11])
      expect(decodeLookupReply(new Uint8Array(length))).toBeNull();
  });
});
