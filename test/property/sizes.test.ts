/**
 * Goal: a size text means its number times a power of 1024, in any case and with blanks, and nothing else is accepted.
 * Method: random numbers and units written out, and random texts that must be refused or equal the plain rule.
 */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseSizeBytes } from "../../src/config/sizes.ts";

const UNITS = { "": 1, b: 1, kb: 1024, mb: 1024 ** 2, gb: 1024 ** 3 };
const unit = fc.constantFrom(...(Object.keys(UNITS) as (keyof typeof UNITS)[]));
const blanks = fc.constantFrom("", " ", "  ", "\t");

describe("parseSizeBytes", () => {
  it("reads whole numbers with units in any case", () => {
    fc.assert(
      fc.property(
        fc.nat(100_000),
        unit,
        blanks,
        blanks,
        fc.boolean(),
        (count, name, before, between, upper) => {
          const text = `${before}${count}${between}${upper ? name.toUpperCase() : name}${before}`;
          expect(parseSizeBytes(text, "size")).toBe(count * UNITS[name]);
        },
      ),
    );
  });

  it("rounds fractions towards zero", () => {
    fc.assert(
      fc.property(fc.nat(9999), fc.nat(9999), unit, (whole, fraction, name) => {
        const text = `${whole}.${String(fraction).padStart(4, "0")}`;
        expect(parseSizeBytes(text + name, "size")).toBe(Math.floor(Number(text) * UNITS[name]));
      }),
    );
  });

  it("returns whole bytes that can be counted exactly, or a clear error", () => {
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.string(), fc.double()), (value) => {
        let bytes: number;
        try {
          bytes = parseSizeBytes(value, "local_buffer_size");
        } catch (error) {
          expect(error).toMatchObject({ field: "local_buffer_size" });
          expect(["INVALID_VALUE", "INVALID_TYPE"]).toContain((error as { code: string }).code);
          return;
        }
        expect(Number.isSafeInteger(bytes)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});
