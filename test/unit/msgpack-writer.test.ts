/**
 * Goal: whatever byte it is at which the writer's memory grows, what it writes is whole. Method: texts of all lengths before a value
 * of each kind, decoded by the library.
 */
import { decode } from "@msgpack/msgpack";
import { expect, test } from "vitest";
import { MsgpackWriter } from "../../src/events/msgpack-writer.ts";

test("values that are written where the memory grows", () => {
  for (let length = 0; length < 2100; length++) {
    const writer = new MsgpackWriter();
    writer.array(5);
    writer.text("x".repeat(length));
    writer.integer(7);
    writer.binary(Uint8Array.of(1, 2, 3));
    writer.null();
    writer.boolean(true);
    const wanted = ["x".repeat(length), 7, Uint8Array.of(1, 2, 3), null, true];
    expect(decode(writer.take()), `${length} characters`).toEqual(wanted);
  }
});
