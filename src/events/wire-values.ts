/** Checked values of decoded events: a peer's bytes are not to be trusted. */
import { isTokenId, TOKEN_ID_MAX } from "../blocks/token-ids.ts";
import { MooncakeKvError } from "../errors.ts";
import type { ExternalBlockHash } from "./kv-events.ts";
import type { WireKind } from "./wire-fields.ts";

/** The value as the field's kind has it; throws INVALID_TYPE naming `path` when it is none. */
export function readWireValue(kind: WireKind, value: unknown, path: string): unknown {
  switch (kind) {
    case "hash":
      return hash(value, path);
    case "hashes":
      return list(value, path, hash);
    case "integer":
      return integer(value, path);
    case "tokens":
      return list(value, path, tokenId);
    case "tokenLists":
      return list(value, path, (item, at) => list(item, at, tokenId));
    case "keyLists":
      return list(value, path, keyList);
    case "text":
      break;
  }
  return typeof value === "string" ? value : refuse(path, value, "a text");
}

/** Numbers of any size become bigint, so that one hash has one form. */
function hash(value: unknown, path: string): ExternalBlockHash {
  if (value instanceof Uint8Array) return value;
  if (typeof value === "bigint") return BigInt.asUintN(64, value);
  if (typeof value === "number" && Number.isInteger(value))
    return BigInt.asUintN(64, BigInt(value));
  return refuse(path, value, "a whole number or bytes");
}

function integer(value: unknown, path: string): number {
  const given = typeof value === "bigint" ? Number(value) : value;
  return typeof given === "number" && Number.isSafeInteger(given)
    ? given
    : refuse(path, value, "a whole number below 2^53");
}

/** As every other door has them: another number would name another prompt once it is cut to 32 bits. */
function tokenId(value: unknown, path: string): number {
  const given = typeof value === "bigint" ? Number(value) : value;
  return isTokenId(given) ? given : refuse(path, value, `a token id from 0 to ${TOKEN_ID_MAX}`);
}

function keyList(value: unknown, path: string): readonly unknown[] | null {
  if (value === null) return null;
  return list(value, path, (item) => item);
}

function list<Item>(
  value: unknown,
  path: string,
  read: (item: unknown, path: string) => Item,
): Item[] {
  if (!Array.isArray(value)) return refuse(path, value, "a list");
  return value.map((item, index) => read(item, `${path}[${index}]`));
}

function refuse(field: string, value: unknown, wanted: string): never {
  throw new MooncakeKvError({
    code: "INVALID_TYPE",
    field,
    value: typeof value === "bigint" ? String(value) : value,
    problem: `must be ${wanted}`,
    remedy: "Subscribe to a publisher of vLLM's KV events.",
  });
}
