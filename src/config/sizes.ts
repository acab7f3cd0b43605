/**
 * Sizes in configuration files: bytes as a number, or texts such as "80GB", "4 mb", "1.5gb". Units are powers of 1024 and
 * parsing equals vLLM's `_parse_size`.
 */
import { MooncakeKvError } from "../errors.ts";

const UNIT_BYTES: Readonly<Record<string, number>> = {
  gb: 1024 ** 3,
  mb: 1024 ** 2,
  kb: 1024,
  b: 1,
};
const SIZE_TEXT = /^([\d.]+)\s*(gb|mb|kb|b)?$/;
/** What Python's float() takes of the characters that SIZE_TEXT lets through. */
const DECIMAL = /^(\d+\.?\d*|\.\d+)$/;

/**
 * Bytes of a size setting, rounded towards zero. `true` and `false` are 1 and 0, as in Python.
 *
 * Throws INVALID_TYPE for null, lists and objects, INVALID_VALUE for texts that are no size and for sizes above 2^53.
 */
export function parseSizeBytes(value: unknown, field: string): number {
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "number") return checked(Math.trunc(value), value, field);
  if (typeof value !== "string") {
    throw new MooncakeKvError({
      code: "INVALID_TYPE",
      field,
      value,
      problem: "must be a number of bytes or a text with a unit",
      remedy: 'Write for example 4294967296 or "4gb".',
    });
  }
  const match = SIZE_TEXT.exec(value.trim().toLowerCase());
  const digits = match?.[1];
  if (digits === undefined || !DECIMAL.test(digits)) {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field,
      value,
      problem: value.trim() === "" ? "a size must not be empty" : "is not a size",
      remedy: 'Write digits and one of the units b, kb, mb, gb, for example "1.5gb".',
    });
  }
  return checked(Math.trunc(Number(digits) * (UNIT_BYTES[match?.[2] ?? "b"] ?? 1)), value, field);
}

function checked(bytes: number, value: unknown, field: string): number {
  if (Number.isSafeInteger(bytes)) return bytes === 0 ? 0 : bytes;
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field,
    value,
    problem: "is beyond the largest size that can be counted exactly (2^53 bytes)",
    remedy: "Give a smaller size.",
  });
}
