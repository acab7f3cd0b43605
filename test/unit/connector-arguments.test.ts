/**
 * Goal: numbers and tokens that would load into foreign blocks, or name another prompt's keys, are refused by name.
 * Method: the checks that every door calls, on values at and past their bounds.
 */
import { describe, expect, test } from "vitest";
import { checkTokens } from "../../src/blocks/token-ids.ts";
import { checkWhole } from "../../src/connector/embedded/arguments.ts";
import { checkState } from "../../src/connector/planned-saves.ts";
import type { HitRules } from "../../src/keys/coordinator/hit-rules.ts";
import type { FrontEndRequest, RequestListener } from "../../src/serving/front-end-types.ts";
import { LiveRequest } from "../../src/serving/live-request.ts";

describe("whole numbers", () => {
  test("bounds belong to the range", () => {
    expect(() => checkWhole("numComputedTokens", 0, 0, 40)).not.toThrow();
    expect(() => checkWhole("numComputedTokens", 40, 0, 40)).not.toThrow();
  });
  test.each([-16, 41, 0.5, Number.NaN, Infinity, "3", undefined])("%s is refused", (value) => {
    expect(() => checkWhole("numComputedTokens", value, 0, 40)).toThrow(
      expect.objectContaining({ code: "INVALID_VALUE", field: "numComputedTokens" }),
    );
  });
});

const NO_TOKENS = [
  2 ** 32 + 7,
  2 ** 31,
  -1,
  1.5,
  Number.NaN,
  Infinity,
  "5",
  null,
  undefined,
  5n,
  {},
];

describe("token ids", () => {
  test("31 bits are a token id", () => {
    expect(() => checkTokens([0, 7, 0x7fffffff])).not.toThrow();
    expect(() => checkTokens(Int32Array.of(0, 1))).not.toThrow();
    expect(() => checkTokens([])).not.toThrow();
  });
  test.each(NO_TOKENS)("%s is refused, because it would be cut", (token) => {
    const refused = expect.objectContaining({ code: "INVALID_VALUE", field: "tokens[1]" });
    expect(() => checkTokens([5, token as number])).toThrow(refused);
  });
  test.each(["55", 5, null, undefined, { length: -1 }, { length: 1.5 }, () => 5])(
    "%s is no list of them",
    (tokens) => {
      expect(() => checkTokens(tokens as unknown as number[])).toThrow(
        expect.objectContaining({ code: "INVALID_TYPE", field: "tokens" }),
      );
    },
  );
});

test.each([2 ** 32 + 16, -16, 0, 8, 16.5, Number.NaN, "16", 16n])(
  "a state after %s tokens is refused: its key would be another prefix's",
  (tokens) => {
    const rules = hitRules({ groups: [{ needs: "state" }], hashBlockSize: 16 });
    expect(() => checkState(rules, 0, tokens as number)).toThrow(
      expect.objectContaining({ code: "INVALID_VALUE", field: "boundaryPuts.tokens" }),
    );
    expect(() => checkState(rules, 0, 32)).not.toThrow();
  },
);

test("the front end takes no prompt that is none", () => {
  const prompt = { promptTokens: [1, 2 ** 32 + 1], maxTokens: 1 };
  const submit = (): unknown =>
    new LiveRequest(prompt as unknown as FrontEndRequest, {} as RequestListener, 0, {
      hashBlockSize: 16,
      extraEncoding: "pickle",
    });
  expect(submit).toThrow(
    expect.objectContaining({ code: "INVALID_VALUE", field: "promptTokens[1]" }),
  );
});

/** Only what `checkState` reads. */
function hitRules(part: {
  readonly groups: readonly { readonly needs: string }[];
  readonly hashBlockSize: number;
}): HitRules {
  return part as unknown as HitRules;
}
