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

  it("equals a naive reader of the same texts, accepted and refused", () => {
    const near = fc.string({
      unit: fc.constantFrom(..."0159..  \tkKmMgGbBtx-+e".split("")),
      maxLength: 9,
    });
    const shaped = fc
      .tuple(blanks, fc.nat(9999), fc.constantFrom("", ".", ".5", "..5"), blanks, near)
      .map((parts) => parts.join(""));
    fc.assert(
      fc.property(fc.oneof(near, shaped), (text) => {
        let bytes: number | null;
        try {
          bytes = parseSizeBytes(text, "size");
        } catch {
          bytes = null;
        }
        expect(bytes, JSON.stringify(text)).toBe(naiveSize(text));
      }),
      { numRuns: 3000 },
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

/** Letter by letter: digits with at most one point, blanks, one unit, nothing else. null: no size. */
function naiveSize(text: string): number | null {
  const letters = text.trim().toLowerCase().split("");
  let digits = "";
  while (letters.length > 0 && "0123456789.".includes(letters[0] ?? "?"))
    digits += letters.shift() ?? "";
  while (letters.length > 0 && (letters[0] ?? "?").trim() === "") letters.shift();
  const name = letters.join("");
  const points = digits.split("").filter((letter) => letter === ".").length;
  if (points > 1 || digits.length === points) return null;
  if (!Object.hasOwn(UNITS, name)) return null;
  return Math.trunc(Number(digits) * UNITS[name as keyof typeof UNITS]);
}
