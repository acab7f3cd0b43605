/**
 * Goal: the hand-written CBOR encoder writes what an independent encoder writes.
 * Method: random trees of the five types that block hashes use, against cborg; sizes around every width of an integer.
 */
import { encode } from "cborg";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CborWriter } from "../../src/keys/cbor-writer.ts";

type Tree = null | number | string | Uint8Array | Tree[];

const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.oneof(
    { depthSize: "small" },
    fc.constant(null),
    fc.maxSafeInteger(),
    fc.string({ unit: "binary" }),
    fc.uint8Array({ maxLength: 300 }),
    fc.array(tie("tree"), { maxLength: 30 }),
  ),
}));

describe("CborWriter", () => {
  const writer = new CborWriter(16);

  it("equals cborg for random trees, written with one reused writer", () => {
    fc.assert(
      fc.property(tree, (value) => {
        writer.reset();
        write(writer, value);
        expect(writer.copy()).toEqual(Uint8Array.from(encode(value)));
      }),
      { numRuns: 500 },
    );
  });

  it("takes the shortest form at every change of width", () => {
    for (const edge of [
      0,
      23,
      24,
      255,
      256,
      65535,
      65536,
      2 ** 32 - 1,
      2 ** 32,
      Number.MAX_SAFE_INTEGER,
    ]) {
      for (const value of [edge, -edge, -1 - edge]) {
        if (!Number.isSafeInteger(value)) continue;
        writer.reset();
        // Negative zero is not an integer of its own in CBOR.
        writer.integer(value);
        expect(writer.copy(), String(value)).toEqual(
          Uint8Array.from(encode(value === 0 ? 0 : value)),
        );
      }
    }
  });

  it("refuses numbers and texts that have no exact form", () => {
    for (const value of [0.5, Number.NaN, 2 ** 53, Number.POSITIVE_INFINITY]) {
      expect(() => writer.integer(value)).toThrow(
        expect.objectContaining({ code: "INVALID_VALUE", value }),
      );
    }
    expect(() => writer.text("half \ud83d pair")).toThrow(
      expect.objectContaining({ code: "INVALID_VALUE" }),
    );
  });
});

function write(writer: CborWriter, value: Tree): void {
  if (value === null) writer.null();
  else if (typeof value === "number") writer.integer(value);
  else if (typeof value === "string") writer.text(value);
  else if (value instanceof Uint8Array) writer.bytes(value);
  else {
    writer.array(value.length);
    for (const item of value) write(writer, item);
  }
}
