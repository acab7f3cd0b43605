import type { KvEvent, KvEventBatch } from "./kv-events.ts";
import { MsgpackWriter } from "./msgpack-writer.ts";
import { EVENT_FIELDS } from "./wire-fields.ts";

/** Encodes batches one after the other into one buffer that it keeps. */
export class KvEventEncoder {
  readonly #writer = new MsgpackWriter();

  /**
   * The payload of one message, as vLLM writes it: an array [ts, events, data_parallel_rank] whose events are maps with their type
   * first and without absent optional fields. Throws INVALID_VALUE for numbers that msgpack cannot hold.
   */
  encode(batch: KvEventBatch): Uint8Array {
    const writer = this.#writer;
    writer.clear();
    writer.array(3);
    writer.float(batch.timestampSeconds);
    writer.array(batch.events.length);
    for (const event of batch.events) this.#event(event);
    writeValue(writer, batch.dataParallelRank, "dataParallelRank");
    return writer.take();
  }

  #event(event: KvEvent): void {
    const writer = this.#writer;
    const values = new Map<string, unknown>(Object.entries(event));
    const fields = EVENT_FIELDS[event.type].filter(
      ({ name, optional }) => !optional || (values.get(name) ?? null) !== null,
    );
    writer.map(1 + fields.length, 1 + EVENT_FIELDS[event.type].length);
    writer.text("type");
    writer.text(event.type);
    for (const { name, wire } of fields) {
      writer.text(wire);
      writeValue(writer, values.get(name), name);
    }
  }
}

/** Texts, whole numbers, hashes, null and lists of these: all that events hold. */
function writeValue(writer: MsgpackWriter, value: unknown, field: string): void {
  if (value === null || value === undefined) writer.null();
  else if (typeof value === "string") writer.text(value);
  else if (typeof value === "boolean") writer.boolean(value);
  else if (typeof value === "bigint") writer.integer(value);
  else if (typeof value === "number") {
    if (Number.isInteger(value)) writer.integer(value);
    else writer.float(value);
  } else if (value instanceof Uint8Array) writer.binary(value);
  else if (isList(value)) {
    writer.array(value.length);
    for (const item of value) writeValue(writer, item, field);
  } else throw new TypeError(`${field} of a KV event holds a ${typeof value}`);
}

function isList(value: unknown): value is ArrayLike<unknown> & Iterable<unknown> {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
}
