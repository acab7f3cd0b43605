/** Events that a serving loop hands over for publishing, checked before any is queued: encoding comes later, where nobody could tell the caller. */
import { nearestName, shortName } from "../config/warnings.ts";
import { fail } from "../errors.ts";
import type { KvEvent } from "./kv-events.ts";
import { EVENT_FIELDS, type WireKind } from "./wire-fields.ts";

const REMEDY = "Give events as the type KvEvent describes them.";
/** Lists within lists, as in the extra keys of blocks. */
const DEPTH_MAX = 8;

const TYPES: readonly string[] = Object.keys(EVENT_FIELDS);
const HOLDS: { readonly [kind in WireKind]: (value: unknown) => boolean } = {
  hash: isHash,
  hashes: (value) => isList(value) && Array.from(value).every(isHash),
  integer: isWhole,
  tokens: isTokens,
  tokenLists: (value) => isList(value) && Array.from(value).every(isTokens),
  text: (value) => typeof value === "string",
  keyLists: (value) => isList(value) && isWritable(value, DEPTH_MAX),
};

const WORDS: { readonly [kind in WireKind]: string } = {
  hash: "a block hash, as bigint or Uint8Array",
  hashes: "a list of block hashes, each a bigint or a Uint8Array",
  integer: "a whole number",
  tokens: "a list of token ids",
  tokenLists: "lists of token ids",
  text: "a text",
  keyLists: "lists of texts, numbers and lists",
};

/** Throws INVALID_TYPE or INVALID_VALUE naming the event and its field. */
export function checkEvents(events: readonly KvEvent[]): void {
  if (!Array.isArray(events))
    fail("INVALID_TYPE", "events", events, "must be a list of KV events", REMEDY);
  for (let index = 0; index < events.length; index++) checkEvent(events[index], `events[${index}]`);
}

function checkEvent(event: unknown, at: string): void {
  if (typeof event !== "object" || event === null || Array.isArray(event))
    fail("INVALID_TYPE", at, event, "is no KV event", REMEDY);
  const record = event as Readonly<Record<string, unknown>>;
  const { type } = record;
  if (typeof type !== "string" || !TYPES.includes(type))
    fail("INVALID_VALUE", `${at}.type`, type, `must be one of ${TYPES.join(", ")}`, REMEDY);
  const fields = EVENT_FIELDS[type as KvEvent["type"]];
  for (const { name, kind, nullable, optional } of fields) {
    const value = record[name];
    if (value === undefined && !optional)
      fail("MISSING", `${at}.${name}`, value, `is missing in an event of type ${type}`, REMEDY);
    if ((nullable && (value ?? null) === null) || HOLDS[kind](value)) continue;
    fail("INVALID_TYPE", `${at}.${name}`, value, `must be ${WORDS[kind]}`, REMEDY);
  }
  for (const key of Object.keys(record)) {
    if (key === "type" || fields.some(({ name }) => name === key)) continue;
    const nearest = nearestName(
      key,
      fields.map(({ name }) => name),
    );
    const remedy = nearest === null ? "Remove it." : `Did you mean "${nearest}"?`;
    fail("INVALID_VALUE", `${at}.${shortName(key)}`, record[key], `is no field of ${type}`, remedy);
  }
}

function isHash(value: unknown): boolean {
  if (typeof value === "bigint") return value >= 0n && value < 1n << 64n;
  return value instanceof Uint8Array && value.length > 0;
}
function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
function isTokens(value: unknown): boolean {
  return isList(value) && Array.from(value).every(isWhole);
}
function isList(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
}
/** What the encoder writes: see encode-batch.ts. */
function isWritable(value: unknown, depth: number): boolean {
  if (value === null || value === undefined) return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value === "bigint") return value >= -(1n << 63n) && value < 1n << 64n;
  if (typeof value === "string" || typeof value === "boolean") return true;
  if (value instanceof Uint8Array) return true;
  return (
    isList(value) && depth > 0 && Array.from(value).every((each) => isWritable(each, depth - 1))
  );
}
