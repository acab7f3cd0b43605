/** Checks that the parts of a KV-cache description share. */
import { fail } from "../errors.ts";

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

export function isRecord(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
