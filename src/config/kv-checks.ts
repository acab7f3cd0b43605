/** Checks that descriptions and options which a program gives share. */
import { fail } from "../errors.ts";
import { nearestName, shortName } from "./warnings.ts";

/**
 * Throws INVALID_VALUE for a key that nobody reads, naming the nearest known one: a setting with a typing error would have no effect
 * in silence. `path` is put before the key. A key whose value is undefined is none.
 */
export function refuseUnknownKeys(given: object, known: readonly string[], path = ""): void {
  for (const key of Object.keys(given)) {
    if (known.includes(key)) continue;
    const value = (given as Readonly<Record<string, unknown>>)[key];
    if (value === undefined) continue;
    const nearest = nearestName(key, known);
    const remedy =
      nearest === null
        ? `Remove it; known are ${known.join(", ")}.`
        : `Did you mean "${nearest}"? Rename or remove it.`;
    fail(
      "INVALID_VALUE",
      path + shortName(key),
      value,
      "is not known and would have no effect",
      remedy,
    );
  }
}

/** A switch. Throws INVALID_TYPE: a text such as "false" must not be taken for either. */
export function flag(value: unknown, field: string): boolean {
  if (typeof value === "boolean") return value;
  return fail(
    "INVALID_TYPE",
    field,
    value,
    "must be true or false",
    "Give a boolean, or leave it out.",
  );
}

/** A whole number from 1 to 2^31 - 1. Throws MISSING, INVALID_TYPE or INVALID_VALUE. */
export function positive(value: unknown, field: string): number {
  if (typeof value !== "number") {
    const code = value === undefined ? "MISSING" : "INVALID_TYPE";
    fail(code, field, value, "must be a number", "Give a whole number above 0.");
  }
  if (!Number.isInteger(value) || value <= 0 || value > 0x7fffffff) {
    fail(
      "INVALID_VALUE",
      field,
      value,
      "must be a whole number from 1 to 2^31 - 1",
      "Correct the number.",
    );
  }
  return value;
}
