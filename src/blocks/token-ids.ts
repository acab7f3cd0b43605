import { fail } from "../errors.ts";

/** Rows hold int32, and vLLM's ids are not negative. */
export const TOKEN_ID_MAX = 0x7fffffff;

/**
 * The one check of every door that tokens come in by. A token that is no whole number from 0 to 2^31 - 1 would be cut to 32 bits
 * when it is written, and another prompt's blocks would be found under its key. Throws INVALID_TYPE for what is no list, and
 * INVALID_VALUE naming the place of what is no token id. Call it before anything is written.
 */
export function checkTokens(tokens: ArrayLike<number>, field = "tokens"): void {
  const length: unknown = typeof tokens === "object" && tokens !== null ? tokens.length : undefined;
  if (!isTokenId(length))
    fail("INVALID_TYPE", field, tokens, "must be a list of token ids", "Give an array.");
  for (let index = 0; index < length; index++) {
    const token: unknown = tokens[index];
    if (isTokenId(token)) continue;
    const problem = `must be a whole number from 0 to ${TOKEN_ID_MAX}`;
    const remedy = "Give token ids of the model's vocabulary, as numbers.";
    fail("INVALID_VALUE", `${field}[${index}]`, token, problem, remedy);
  }
}

export function isTokenId(value: unknown): value is number {
  return typeof value === "number" && (value | 0) === value && value >= 0;
}
