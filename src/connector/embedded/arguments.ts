import { MooncakeKvError } from "../../errors.ts";

/** Throws INVALID_VALUE unless `value` is a whole number from `least` to `most`. */
export function checkWhole(field: string, value: unknown, least: number, most: number): void {
  if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most)
    return;
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field,
    value,
    problem: `must be a whole number from ${least} to ${most}`,
    remedy: `Give a ${field} within these bounds.`,
  });
}

/**
 * Throws INVALID_VALUE for a token id that is no whole number from 0 to 2^31 - 1: it would be cut to 32 bits, and another
 * prompt's blocks would be found under its key. An Int32Array needs no look at each token but for its sign.
 */
export function checkTokens(tokens: ArrayLike<number>): void {
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index]!;
    if ((token | 0) !== token || token < 0) checkWhole(`tokens[${index}]`, token, 0, 0x7fffffff);
  }
}
