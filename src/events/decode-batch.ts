/**
 * Reads what publishers of all vLLM versions send: batch and events as arrays or as maps, hashes as numbers or as bytes, with fewer
 * fields (older) or more (newer).
 */
import { decode } from "@msgpack/msgpack";
import { MooncakeKvError } from "../errors.ts";
import type { KvEvent, KvEventBatch } from "./kv-events.ts";
import { BATCH_FIELDS, EVENT_FIELDS, isEventType } from "./wire-fields.ts";
import type { WireField } from "./wire-fields.ts";
import { msgpackProblem } from "./msgpack-shape.ts";
import { readWireValue } from "./wire-values.ts";

export interface DecodedBatch extends KvEventBatch {
  /** Events of types that this version does not know, left out of `events`. */
  readonly unknownEvents: number;
}

/** Throws INVALID_VALUE, INVALID_TYPE or MISSING, naming the field, for bytes that are no batch of KV events. */
export function decodeBatch(payload: Uint8Array): DecodedBatch {
  const batch = unpack(payload);
  const [timestamp, events, rank] = BATCH_FIELDS.map((field, index) =>
    Array.isArray(batch) ? batch[index] : mapOf(batch, "batch").get(field),
  );
  if (typeof timestamp !== "number") refuse("ts", timestamp, "must be a number of seconds");
  if (!Array.isArray(events)) refuse("events", events, "must be a list");
  const decoded = events.map((event: unknown, index) => readEvent(event, `events[${index}]`));
  const known = decoded.filter((event) => event !== null);
  return {
    timestampSeconds: timestamp,
    events: known,
    dataParallelRank: rankOf(rank),
    unknownEvents: decoded.length - known.length,
  };
}

function rankOf(rank: unknown): number | null {
  if (rank === null || rank === undefined) return null;
  return readWireValue("integer", rank, "data_parallel_rank") as number;
}

function unpack(payload: Uint8Array): unknown {
  const problem = msgpackProblem(payload);
  try {
    if (problem !== null) throw new RangeError(problem);
    return decode(payload, { useBigInt64: true });
  } catch (cause) {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "KV event batch",
      value: `${payload.length} bytes`,
      problem: problem ?? "is not msgpack",
      remedy: "Subscribe to a publisher of KV events, with its topic.",
      cause,
    });
  }
}

function readEvent(value: unknown, path: string): KvEvent | null {
  const positional = Array.isArray(value);
  const fields = positional ? null : mapOf(value, path);
  const type: unknown = positional ? value[0] : fields?.get("type");
  if (typeof type !== "string") refuse(`${path}.type`, type, "must be a text");
  if (!isEventType(type)) return null;
  const read = (field: WireField, index: number): [string, unknown] => [
    field.name,
    readField(field, positional ? value[index + 1] : fields?.get(field.wire), path),
  ];
  const entries = EVENT_FIELDS[type].map(read).filter(([, given]) => given !== undefined);
  return { type, ...Object.fromEntries(entries) } as unknown as KvEvent;
}

/**
 * undefined for an optional field that is absent or null. Nullable fields were added in the course of time: an event that ends before
 * them has null.
 */
function readField(field: WireField, value: unknown, path: string): unknown {
  if (value === null || value === undefined) {
    if (field.optional) return undefined;
    if (field.nullable) return null;
    const where = `${path}.${field.wire}`;
    throw new MooncakeKvError({
      code: "MISSING",
      field: where,
      problem: "is absent",
      remedy: "Subscribe to a publisher of vLLM's KV events.",
    });
  }
  return readWireValue(field.kind, value, `${path}.${field.wire}`);
}

function mapOf(value: unknown, what: string): ReadonlyMap<string, unknown> {
  if (typeof value === "object" && value !== null && !(value instanceof Uint8Array))
    return new Map(Object.entries(value));
  return refuse(what, value, "must be a list or a map");
}

function refuse(field: string, value: unknown, problem: string): never {
  throw new MooncakeKvError({
    code: "INVALID_TYPE",
    field,
    value: typeof value === "bigint" ? String(value) : value,
    problem,
    remedy: "Subscribe to a publisher of vLLM's KV events.",
  });
}
