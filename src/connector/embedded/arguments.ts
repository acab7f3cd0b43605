/** Checks of what a serving loop gives to the hooks: a program without types makes mistakes too, and no shape of them may get past. */
import { refuseUnknownKeys } from "../../config/kv-checks.ts";
import { fail, MooncakeKvError } from "../../errors.ts";

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

/** A request's name. Throws INVALID_TYPE: another type would name a request that nobody ever adds. */
export function checkId(value: unknown, field = "id"): asserts value is string {
  if (typeof value === "string") return;
  fail("INVALID_TYPE", field, value, "must be a text", "Give the text that addRequest was given.");
}

/** Names of requests. Throws INVALID_TYPE. */
export function checkIds(value: unknown, field: string): void {
  checkList(value, field);
  for (let index = 0; index < value.length; index++) checkId(value[index], `${field}[${index}]`);
}

export function checkList(value: unknown, field: string): asserts value is readonly unknown[] {
  if (Array.isArray(value)) return;
  fail("INVALID_TYPE", field, value, "must be an array", "Give an array, empty for none.");
}

/** An object, with no key that nobody reads when `known` names those that somebody does. Throws INVALID_TYPE or INVALID_VALUE. */
export function checkRecord(
  value: unknown,
  field: string,
  known?: readonly string[],
): asserts value is object {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    const remedy =
      known === undefined ? "Give it as its type describes." : `Give { ${known.join(", ")} }.`;
    fail("INVALID_TYPE", field, value, "must be an object", remedy);
  }
  if (known !== undefined) refuseUnknownKeys(value, known, `${field}.`);
}
