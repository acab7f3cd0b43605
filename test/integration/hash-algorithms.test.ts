/**
 * Goal: with each of the four hash algorithms a runtime stores blocks under the keys that vLLM would look for, finds them again, and
 * keeps requests of other salts and adapters apart; a start that is drawn at random is warned of.
 * Method: `attachConnector`'s runtime with real actors and the local engine; the keys in the engine against the TypeScript twin,
 * which the golden vectors hold to vLLM.
 */
import { afterEach, expect, test } from "vitest";
import type { AddRequestOptions } from "../../src/connector/connector.ts";
import { hashBlocks, hashHex } from "../../src/keys/block-hash.ts";
import { hashAlgorithm } from "../../src/keys/hash-algorithm.ts";
import { noneHash } from "../../src/keys/none-hash.ts";
import { BLOCK, EmbeddedLoop, KV_CACHE, tokens } from "./support/embedded.ts";
import { ALGORITHMS } from "../vectors/hash-cases.ts";

const PROMPT = tokens(60, 1);
const OPTIONS = { cacheSalt: "a", lora: { name: "a", path: "/adapters/a" } } as const;

let loop: EmbeddedLoop | undefined;
afterEach(async () => {
  expect(await loop?.attached.stop()).toBe(0);
  loop = undefined;
});

async function attach(
  hashAlgorithm: (typeof ALGORITHMS)[number],
  seed: string | null,
): Promise<EmbeddedLoop> {
  loop = await EmbeddedLoop.attach(
    {},
    {
      kvCache: { ...KV_CACHE, hashAlgorithm },
      environment: seed === null ? {} : { PYTHONHASHSEED: seed },
    },
  );
  return loop;
}

/** Tokens of the prompt that the pool holds for such a request. */
function found(at: EmbeddedLoop, id: string, options: AddRequestOptions): number {
  const { scheduler } = at.attached.connector;
  scheduler.addRequest(id, PROMPT, options);
  const [count] = at.match(id);
  scheduler.requestFinished(id);
  at.stepUntil(() => at.attached.connector.idle());
  return count;
}

test.each(ALGORITHMS)("%s: keys are vLLM's, and what was saved is found again", async (name) => {
  const at = await attach(name, "7");
  const { scheduler } = at.attached.connector;
  scheduler.addRequest("first", PROMPT, OPTIONS);
  at.match("first");
  const blocks = at.blocks(4);
  scheduler.updateStateAfterAlloc("first", [blocks], 0);
  at.step([{ id: "first", numComputedTokens: 0, newBlockIds: null, numScheduledTokens: 60 }]);
  scheduler.requestFinished("first", [blocks]);
  at.stepUntil(() => at.pinned().length === 0);

  const request = { tokens: PROMPT, blockSize: BLOCK, ...OPTIONS };
  const digests = hashBlocks(request, noneHash("7", name), name);
  const { digestBytes } = hashAlgorithm(name);
  const expected = [0, 1, 2].map((block) => hashHex(digests, block, digestBytes));
  const keys = at.runtime.native.engineKeys(at.runtime.engineId, "model@tp_rank", 100);
  expect(keys.map((key) => key.slice(key.lastIndexOf("@") + 1)).toSorted()).toEqual(
    expected.toSorted(),
  );

  expect(found(at, "same", OPTIONS)).toBe(48);
  expect(found(at, "other salt", { ...OPTIONS, cacheSalt: "b" })).toBe(0);
  expect(found(at, "no adapter", { cacheSalt: "a" })).toBe(0);
});

test.each(ALGORITHMS)("%s without a seed: warned of when nothing can be shared", async (name) => {
  const at = await attach(name, null);
  const warnings = at.log.lines.filter((line) => JSON.stringify(line).includes("PYTHONHASHSEED"));
  expect(warnings.length).toBe(name.startsWith("xxhash") ? 1 : 0);
  at.computeAndSave("first", PROMPT, () => undefined);
  expect(found(at, "second", {})).toBe(48);
});

test("a hash block below the block size: each block is named by its last hash", async () => {
  const groups = [
    { kind: "full", layers: 1 },
    { kind: "full", layers: 1 },
  ] as const;
  loop = await EmbeddedLoop.attach(
    {},
    { kvCache: { ...KV_CACHE, groups, hashBlockSize: 4 }, environment: { PYTHONHASHSEED: "7" } },
  );
  const { scheduler } = loop.attached.connector;
  scheduler.addRequest("first", PROMPT);
  loop.match("first");
  const blocks = [loop.blocks(4), loop.blocks(4)];
  scheduler.updateStateAfterAlloc("first", blocks, 0);
  loop.step([{ id: "first", numComputedTokens: 0, newBlockIds: null, numScheduledTokens: 60 }]);
  scheduler.requestFinished("first", blocks);
  const at = loop;
  at.stepUntil(() => at.attached.connector.idle());

  const digests = hashBlocks({ tokens: PROMPT, blockSize: 4 }, noneHash("7", "sha256"), "sha256");
  const expected = [0, 1].flatMap((group) =>
    [3, 7, 11].map((hash) => `@group:${group}@${hashHex(digests, hash, 32)}`),
  );
  const keys = at.runtime.native.engineKeys(at.runtime.engineId, "model@tp_rank", 100);
  expect(keys.map((key) => key.slice(key.indexOf("@group:"))).toSorted()).toEqual(
    expected.toSorted(),
  );
  expect(found(at, "again", {})).toBe(48);
});
