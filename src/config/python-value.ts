/**
 * JSON values as Python sees them. vLLM reads the same files without checking types, so what a value means there follows
 * from Python's rules for truth and text; a shared file must mean the same here.
 */
import { fail, MooncakeKvError } from "../errors.ts";
import { isRecord, jsonExcess } from "./json-text.ts";
import type { ConfigWarning } from "./warnings.ts";

/** `bool(value)` in Python for a value that came out of JSON. */
export function pythonTruth(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (typeof value === "object" && value !== null) return Object.keys(value).length > 0;
  return Boolean(value);
}

/**
 * A switch by Python's truth. A text is true unless it is empty, even "false": that is vLLM's behaviour, and nearly always a
 * mistake, so it is warned of.
 */
export function pythonSwitch(
  record: Readonly<Record<string, unknown>>,
  key: string,
  absent: boolean,
  path: string,
  warnings: ConfigWarning[],
): boolean {
  if (!Object.hasOwn(record, key)) return absent;
  const value = record[key];
  const truth = pythonTruth(value);
  if (typeof value !== "boolean") {
    warnings.push({
      field: path + key,
      value,
      problem: `this is no boolean and counts as ${truth}, as in vLLM`,
      remedy: `Write ${typeof value === "string" && looksFalse(value) ? false : truth} without quotes.`,
    });
  }
  return truth;
}

function looksFalse(text: string): boolean {
  return ["", "false", "0", "no", "off", "none", "null"].includes(text.trim().toLowerCase());
}

/**
 * `str(value)` in Python for a value that came out of JSON.
 *
 * Throws INVALID_TYPE for numbers with a fraction or above 2^53 and for lists and objects: their Python text cannot be
 * rebuilt from what JSON.parse keeps, and a guess would name another namespace than vLLM's.
 */
export function pythonText(value: unknown, field: string): string {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number" && Number.isSafeInteger(value)) return String(value);
  throw new MooncakeKvError({
    code: "INVALID_TYPE",
    field,
    value,
    problem: "must be a text",
    remedy: "Put it in quotes, written as Python's str() prints it.",
  });
}

/** The value as an object with string keys; throws INVALID_TYPE otherwise. */
export function asRecord(value: unknown, field: string): Readonly<Record<string, unknown>> {
  if (isRecord(value)) {
    return Object.fromEntries(Object.entries(value));
  }
  throw new MooncakeKvError({
    code: "INVALID_TYPE",
    field,
    value,
    problem: "must be a JSON object",
    remedy: 'Write it as {"name": value, ...}.',
  });
}

/** Parses a JSON text into an object. Throws INVALID_VALUE for a text that is no JSON, or that holds more than `JSON_LIMITS`. */
export function parseJsonRecord(text: string, field: string): Readonly<Record<string, unknown>> {
  const excess = jsonExcess(text);
  if (excess !== null) {
    const where = excess.field === null ? field : `${field}.${excess.field}`;
    return fail("INVALID_VALUE", where, text, excess.problem, "Take out what no setting needs.");
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field,
      value: text,
      problem: `is not valid JSON: ${cause instanceof Error ? cause.message : String(cause)}`,
      remedy: "Correct the text; JSON has no comments and no trailing commas.",
      cause,
    });
  }
  return asRecord(value, field);
}
