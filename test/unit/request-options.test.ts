/**
 * Goal: what `addRequest` is given beside tokens is either hashed as vLLM hashes it or refused by name: never a bare TypeError, and
 * never another block's name.
 * Method: the checks on shapes as programs get them wrong; embeddings against zeros given by hand.
 */
import { describe, expect, test } from "vitest";
import type { TableDimensions } from "../../src/blocks/tables.ts";
import { checkRequest } from "../../src/connector/embedded/request-options.ts";
import { encodeExtraWords } from "../../src/keys/block-extra.ts";

const DIMENSIONS: TableDimensions = {
  requestSlots: 1,
  jobSlots: 1,
  tokensPerRequestMax: 100,
  tokensMax: 100,
  hashBlockSize: 4,
  hashLookaheadTokens: 0,
  extraEncoding: "pickle",
  blockSize: 4,
  groups: 1,
  blockCount: 10,
  stepSequencesMax: 0,
};
const TOKENS = [1, 2, 3, 4, 5, 6, 7, 8];
const EMBEDS = { bytes: Uint8Array.from({ length: 16 }, (_, index) => index), rowBytes: 2 };

describe("prompt embeddings", () => {
  test("positions that are no tokens count as token 0", () => {
    const promptIsTokenIds = [true, true, false, false, true, false, true, true];
    const promptEmbeds = { ...EMBEDS, promptIsTokenIds };
    const { tokens } = checkRequest(TOKENS, { promptEmbeds }, DIMENSIONS);
    expect(Array.from(tokens)).toEqual([1, 2, 0, 0, 5, 0, 7, 8]);
    expect(checkRequest(TOKENS, { promptEmbeds: EMBEDS }, DIMENSIONS).tokens).toBe(TOKENS);
  });

  test("stand in every block that the request may get, answer included", () => {
    const { extras, tokensMax } = checkRequest(
      TOKENS,
      { promptEmbeds: EMBEDS, maxTokens: 9 },
      DIMENSIONS,
    );
    expect(tokensMax).toBe(17);
    const request = { tokens: TOKENS, blockSize: 4, promptEmbeds: EMBEDS };
    expect(extras).toEqual(encodeExtraWords(request, 4, "pickle"));
  });
});

test("extra keys are written for the algorithm of the tables", () => {
  const options = { cacheSalt: "salt" };
  const cbor = checkRequest(TOKENS, options, { ...DIMENSIONS, extraEncoding: "cbor" }).extras;
  const pickle = checkRequest(TOKENS, options, DIMENSIONS).extras;
  expect(cbor).not.toBeNull();
  expect(pickle).not.toEqual(cbor);
  expect(checkRequest(TOKENS, { cacheSalt: "" }, DIMENSIONS).extras).toBeNull();
});

test.each<[string, string, unknown, unknown]>([
  ["tokens that are a text", "tokens", "abc", {}],
  ["no tokens", "tokens", undefined, {}],
  ["a token beyond 31 bits", "tokens[1]", [1, 2 ** 31], {}],
  ["a salt that is a number", "cacheSalt", TOKENS, { cacheSalt: 7 }],
  ["an adapter that is a text", "lora", TOKENS, { lora: "adapter" }],
  ["an adapter without a path", "lora.path", TOKENS, { lora: { name: "a" } }],
  ["images that are no list", "multiModal", TOKENS, { multiModal: {} }],
  ["an image that is nothing", "multiModal[0]", TOKENS, { multiModal: [null] }],
  ["an image without an identifier", "multiModal[0].identifier", TOKENS, { multiModal: [{}] }],
  [
    "images out of order",
    "multiModal[1].offset",
    TOKENS,
    {
      multiModal: [
        { identifier: "b", offset: 4, length: 1 },
        { identifier: "a", offset: 1, length: 1 },
      ],
    },
  ],
  ["embeddings of numbers", "promptEmbeds.bytes", TOKENS, { promptEmbeds: { bytes: [1] } }],
  [
    "too few rows",
    "promptEmbeds.bytes",
    TOKENS,
    { promptEmbeds: { bytes: new Uint8Array(14), rowBytes: 2 } },
  ],
  ["no row size", "promptEmbeds.rowBytes", TOKENS, { promptEmbeds: { bytes: EMBEDS.bytes } }],
  [
    "flags for other positions",
    "promptEmbeds.promptIsTokenIds",
    TOKENS,
    { promptEmbeds: { ...EMBEDS, promptIsTokenIds: [true] } },
  ],
  [
    "flags that are numbers",
    "promptEmbeds.promptIsTokenIds[0]",
    TOKENS,
    { promptEmbeds: { ...EMBEDS, promptIsTokenIds: new Uint8Array(8).fill(1) } },
  ],
  [
    "flags that are nothing",
    "promptEmbeds.promptIsTokenIds",
    TOKENS,
    { promptEmbeds: { ...EMBEDS, promptIsTokenIds: null } },
  ],
])("%s: refused by name", (_name, field, tokens, options) => {
  // As a program without types would call it.
  const call = (): unknown => checkRequest(tokens as number[], options as object, DIMENSIONS);
  expect(call).toThrow(
    expect.objectContaining({ field, code: expect.stringMatching(/^INVALID_(TYPE|VALUE)$/) }),
  );
});
