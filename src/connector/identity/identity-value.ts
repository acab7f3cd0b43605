/** The value of an identity key: canonical JSON, so that equal identities are equal bytes. */
import { isRecord } from "../../config/json-text.ts";
import { IDENTITY_FORMAT } from "./identity.ts";
import type { PoolIdentity } from "./identity.ts";

/** Fields as somebody has published them: any of them may be missing, or of a type that we do not know. */
export interface PublishedIdentity {
  readonly keys: Readonly<Record<string, unknown>>;
  readonly bytes: Readonly<Record<string, unknown>>;
}
/**
 * `problem`: why the value cannot be read, for a person. `otherFormat`: it may be a newer version's identity; else it is nobody's.
 */
export type ReadIdentity =
  | { readonly ok: true; readonly identity: PublishedIdentity }
  | { readonly ok: false; readonly problem: string; readonly otherFormat?: true };

/** A value that somebody else has written: whoever claims so much has not written an identity. */
const VALUE_BYTES_MAX = 64 * 1024;
/** The object, its two groups, lists, KV-cache groups, their fields, and one more. */
const DEPTH_MAX = 6;
const SHOWN_CHARACTERS_MAX = 200;

export function encodeIdentity(identity: PoolIdentity): Uint8Array {
  return Buffer.from(canonicalJson({ format: IDENTITY_FORMAT, ...identity }));
}

export function decodeIdentity(value: Uint8Array): ReadIdentity {
  if (value.byteLength > VALUE_BYTES_MAX)
    return { ok: false, problem: `it has ${value.byteLength} bytes` };
  let parsed: unknown;
  try {
    parsed = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(value));
  } catch {
    return { ok: false, problem: "it is no JSON text" };
  }
  if (!isRecord(parsed)) return { ok: false, problem: "it is no JSON object" };
  // Before anything walks through it: a few kilobytes of brackets are deeper than a stack.
  if (!isFlat(parsed, DEPTH_MAX))
    return { ok: false, problem: "it is nested more deeply than an identity" };
  const { format, keys, bytes } = parsed;
  if (format !== IDENTITY_FORMAT) {
    const problem = `its format is ${format === undefined ? "not given" : shownJson(format)}`;
    return typeof format === "number"
      ? { ok: false, problem, otherFormat: true }
      : { ok: false, problem };
  }
  if (!isRecord(keys) || !isRecord(bytes))
    return { ok: false, problem: "it lacks its two groups of fields" };
  return { ok: true, identity: { keys, bytes } };
}

/** JSON with the fields of every object in the order of their names. */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (!isRecord(value)) return JSON.stringify(value) ?? "null";
  const fields = Object.keys(value).toSorted();
  return `{${fields.map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name])}`).join(",")}}`;
}

/** The same for people and logs: whatever its length, it is cut. */
export function shownJson(value: unknown): string {
  const text = canonicalJson(value);
  return text.length > SHOWN_CHARACTERS_MAX
    ? `${text.slice(0, SHOWN_CHARACTERS_MAX - 3)}...`
    : text;
}

function isFlat(value: unknown, depthMax: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depthMax > 0 && Object.values(value).every((each) => isFlat(each, depthMax - 1));
}
