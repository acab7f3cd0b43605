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
