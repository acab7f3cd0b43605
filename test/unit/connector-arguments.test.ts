/**
 * Goal: numbers and tokens that would load into foreign blocks, or name another prompt's keys, are refused by name.
 * Method: the checks of the embedded face on values at and past their bounds.
 */
import { describe, expect, test } from "vitest";
import { checkTokens, checkWhole } from "../../src/connector/embedded/arguments.ts";

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

describe("token ids", () => {
  test("31 bits are a token id", () => {
    expect(() => checkTokens([0, 7, 0x7fffffff])).not.toThrow();
    expect(() => checkTokens(Int32Array.of(0, 1))).not.toThrow();
  });
  test.each([2 ** 32 + 7, -1, 1.5, Number.NaN])(
    "%s is refused, because it would be cut",
    (token) => {
      expect(() => checkTokens([5, token])).toThrow(
        expect.objectContaining({ code: "INVALID_VALUE", field: "tokens[1]" }),
      );
    },
  );
});
