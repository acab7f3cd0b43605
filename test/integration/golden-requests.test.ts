/**
 * Goal: a request that is given to `addRequest` with salts, adapters, images, embeddings and look-ahead hashing is stored under the
 * very hashes that vLLM computed for it, in every algorithm.
 * Method: all golden requests of 16-token blocks through `attachConnector`'s runtime with real actors and the local engine; the
 * keys that the pool then holds are compared with vLLM's hashes.
 */
import { afterEach, expect, test } from "vitest";
import type { AddRequestOptions } from "../../src/connector/connector.ts";
import { ALGORITHMS, readHashFile, requestOf, sequenceOf } from "../vectors/hash-cases.ts";
import type { HashCase } from "../vectors/hash-cases.ts";
import { BLOCK, EmbeddedLoop, KV_CACHE } from "./support/embedded.ts";

const SEED = "0";
/** What the loop's blocks hold; longer golden prompts are compared without a runtime elsewhere. */
const HASHES_MAX = 20;

let loop: EmbeddedLoop | undefined;
afterEach(async () => {
  expect(await loop?.attached.stop()).toBe(0);
  loop = undefined;
});

const RUNS = ALGORITHMS.flatMap((name) => [0, 1, 2, 3].map((lookahead) => ({ name, lookahead })));

test.each(RUNS)("$name, look-ahead $lookahead", async ({ name, lookahead }) => {
  const file = readHashFile(name);
  const cases = file.cases.filter(
    (one) =>
      one.block_size === BLOCK &&
      one.seed === SEED &&
      one.lookahead === lookahead &&
      one.hashes.length > 0 &&
      one.hashes.length <= HASHES_MAX,
  );
  expect(cases.length).toBeGreaterThan(lookahead === 0 ? 20 : 3);
  loop = await EmbeddedLoop.attach(
    {},
    {
      kvCache: {
        ...KV_CACHE,
        blockCount: 400,
        hashAlgorithm: name,
        hashLookaheadTokens: lookahead,
      },
      environment: { PYTHONHASHSEED: SEED },
    },
  );
  for (const one of cases) {
    const sequence = sequenceOf(file, one);
    if (sequence?.some((token) => token > 0x7fffffff) === true) {
      // No vocabulary has such ids; cut to 32 bits they would name another prompt.
      const refusal = expect.objectContaining({ code: "INVALID_VALUE" });
      const at = loop;
      expect(() => store(at, one, sequence)).toThrow(refusal);
      continue;
    }
    const stored = store(loop, one, sequence);
    expect(stored, one.variant).toEqual([...one.hashes].toSorted());
  }
});

/** Computes and saves the request; returns the hashes under which the pool holds it, and empties the pool. */
function store(at: EmbeddedLoop, one: HashCase, sequence: readonly number[] | null): string[] {
  const { native, engineId } = at.runtime;
  const { scheduler } = at.attached.connector;
  const { tokens, options } = asGiven(one, sequence);
  scheduler.addRequest("one", tokens, options);
  at.match("one");
  const blocks = Array.from({ length: Math.ceil(tokens.length / BLOCK) }, (_, index) => index + 1);
  scheduler.updateStateAfterAlloc("one", [blocks], 0);
  const whole = { numComputedTokens: 0, numScheduledTokens: tokens.length, newBlockIds: null };
  at.step([{ id: "one", ...whole }]);
  scheduler.requestFinished("one", [blocks]);
  at.stepUntil(() => at.attached.connector.idle());
  const keys = native.engineKeys(engineId, "model@tp_rank", 1000);
  native.engineRemovePrefix(engineId, "");
  return keys.map((key) => key.slice(key.lastIndexOf("@") + 1)).toSorted();
}

/** The golden request as a serving loop gives it: tokens as they are, and what is mixed in beside them. */
function asGiven(
  one: HashCase,
  sequence: readonly number[] | null,
): { tokens: readonly number[]; options: AddRequestOptions } {
  const { lora, multiModal, cacheSalt, promptEmbeds, tokens } = requestOf(one, sequence);
  const flags = one.prompt_is_token_ids;
  const embeds = promptEmbeds ?? null;
  return {
    tokens: sequence ?? one.token_ids ?? Array.from(tokens),
    options: {
      lora: lora ?? null,
      multiModal: multiModal ?? [],
      cacheSalt: cacheSalt ?? null,
      promptEmbeds:
        embeds === null || flags === undefined ? embeds : { ...embeds, promptIsTokenIds: flags },
    },
  };
}
