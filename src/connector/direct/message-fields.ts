/** Checked reading of a decoded msgpack map: a peer's bytes are not to be trusted. */
import { MooncakeKvError } from "../../errors.ts";

/** Integers from 2^53 on are bigint: layout ids use all 64 bits. */
export type WireInteger = number | bigint;

export interface MessageFields {
  text(field: string): string;
  text(field: string, absent: null): string | null;
  /** An integer from 0 on. */
  count(field: string, absent?: number): number;
  integer(field: string, absent?: WireInteger): WireInteger;
  integers(field: string, absent?: readonly WireInteger[]): readonly WireInteger[];
  numbers(field: string, absent?: readonly number[]): readonly number[];
  texts(field: string, absent: readonly string[]): readonly string[];
  texts(field: string, absent: null): readonly string[] | null;
  lists(field: string, absent?: readonly (readonly number[])[]): readonly (readonly number[])[];
  /** A map whose values are arrays. */
  entries(field: string): readonly (readonly [string, ArrayFields])[];
}

export interface ArrayFields {
  text(index: number): string;
  lists(index: number): readonly (readonly number[])[];
}

/** Throws INVALID_TYPE unless `value` is a map. Its readers throw MISSING and INVALID_TYPE with the field's name. */
export function messageFields(value: unknown, what: string): MessageFields {
  const map = record(value, what);
  const read = <Value>(
    field: string,
    absent: Value | undefined,
    check: (value: unknown, field: string) => Value,
  ): Value => {
    const given = map[field];
    if (given !== undefined && given !== null) return check(given, field);
    if (absent === undefined) refuse("MISSING", field, given, `is absent from the ${what}`);
    return absent;
  };
  return {
    text: ((field: string, absent?: null) =>
      read<string | null>(field, absent, text)) as MessageFields["text"],
    count: (field, absent) => read(field, absent, count),
    integer: (field, absent) => read(field, absent, integer),
    integers: (field, absent) => read(field, absent, (given) => list(given, field, integer)),
    numbers: (field, absent) => read(field, absent, (given) => list(given, field, number)),
    texts: ((field: string, absent: readonly string[] | null) =>
      read<readonly string[] | null>(field, absent, (given) =>
        list(given, field, text),
      )) as MessageFields["texts"],
    lists: (field, absent) => read(field, absent, (given) => lists(given, field)),
    entries: (field) =>
      Object.entries(record(map[field], field)).map(([key, pair]) => [
        key,
        arrayFields(pair, `${field}.${key}`),
      ]),
  };
}

/** For the encoder: small integers as numbers, so that they take their shortest form; the rest as bigint. */
export function messageInteger(value: WireInteger): WireInteger {
  const large =
    typeof value === "bigint"
      ? value > 0xffff_ffffn || value < -0x8000_0000n
      : Math.abs(value) > 0xffff_ffff;
  if (large) return BigInt(value);
  return Number(value);
}

function arrayFields(value: unknown, what: string): ArrayFields {
  if (!Array.isArray(value)) refuse("INVALID_TYPE", what, value, "is no array");
  const items: readonly unknown[] = value;
  return {
    text: (index) => text(items[index], `${what}[${index}]`),
    lists: (index) => lists(items[index], `${what}[${index}]`),
  };
}

function lists(value: unknown, field: string): readonly (readonly number[])[] {
  return list(value, field, (inner, at) => list(inner, at, number));
}

function list<Item>(
  value: unknown,
  field: string,
  check: (value: unknown, field: string) => Item,
): readonly Item[] {
  if (!Array.isArray(value)) refuse("INVALID_TYPE", field, value, "is no array");
  return value.map((item: unknown, index) => check(item, `${field}[${index}]`));
}

function text(value: unknown, field: string): string {
  if (typeof value !== "string") refuse("INVALID_TYPE", field, value, "is no text");
  return value;
}

function integer(value: unknown, field: string): WireInteger {
  if (typeof value === "bigint") {
    const safe =
      value <= BigInt(Number.MAX_SAFE_INTEGER) && value >= BigInt(Number.MIN_SAFE_INTEGER);
    return safe ? Number(value) : value;
  }
  if (!Number.isSafeInteger(value)) refuse("INVALID_TYPE", field, value, "is no integer");
  return Number(value);
}

function number(value: unknown, field: string): number {
  const read = integer(value, field);
  if (typeof read === "bigint") refuse("INVALID_VALUE", field, read, "is too large");
  return read;
}

function count(value: unknown, field: string): number {
  const read = number(value, field);
  if (read < 0) refuse("INVALID_VALUE", field, read, "is below 0");
  return read;
}

function record(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (
    typeof value !== "object" ||
    value === null ||
    Array.isArray(value) ||
    ArrayBuffer.isView(value)
  )
    refuse("INVALID_TYPE", what, value, "is no map");
  return value as Readonly<Record<string, unknown>>;
}

function refuse(
  code: "MISSING" | "INVALID_TYPE" | "INVALID_VALUE",
  field: string,
  value: unknown,
  problem: string,
): never {
  throw new MooncakeKvError({
    code,
    field,
    value: typeof value === "bigint" ? String(value) : value,
    problem,
    remedy: "Both sides must speak the messages of vLLM 0.33's direct connector.",
  });
}
