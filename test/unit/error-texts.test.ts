/**
 * Goal: an error about a value from outside is short, whatever the value: size, depth, circles, getters that throw.
 * Method: showValue and MooncakeKvError on such values; the texts are compared where they are certain.
 */
import { expect, test } from "vitest";
import { formatWarning, nearestName, unknownKeyWarnings } from "../../src/config/warnings.ts";
import { fail, showValue } from "../../src/errors.ts";

function nested(depth: number): unknown {
  let value: unknown = [];
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? { a: value } : [value];
  return value;
}
const circle: Record<string, unknown> = {};
circle["self"] = circle;

test.each<[unknown, string]>([
  ["text", '"text"'],
  [[1, "a", null, { b: true, c: [] }, {}], '[1,"a",null,{"b":true,"c":[]},{}]'],
  [new Date(0), '"1970-01-01T00:00:00.000Z"'],
  [Number.NaN, "NaN"],
  [5n, "5"],
  [Symbol("s"), "Symbol(s)"],
  [undefined, "undefined"],
  [function named() {}, "function named"],
  [new Uint8Array(3), "3 bytes"],
  [
    {
      get broken() {
        throw new Error("no");
      },
    },
    '{"broken":(unreadable)',
  ],
])("%# is shown whole", (value, text) => {
  expect(showValue(value)).toBe(text);
});

test.each<[string, unknown]>([
  ["a long text", "x".repeat(8_000_000)],
  ["a long list", Array.from({ length: 1_000_000 }, () => ({}))],
  ["depth", nested(200_000)],
  ["a circle", circle],
  ["a long name", { ["k".repeat(1_000_000)]: 1 }],
  ["half a character at the cut", `${"x".repeat(115)}\u{1f600}\u{1f600}`],
])("%s is cut at 120 characters", (_name, value) => {
  const shown = showValue(value);
  expect(shown.length).toBeLessThanOrEqual(120);
  expect(shown.endsWith("...")).toBe(true);
  expect(shown.isWellFormed()).toBe(true);
});

test("field, problem and remedy are cut too", () => {
  const long = "y".repeat(1_000_000);
  const failing = (): never => fail("INVALID_VALUE", long, nested(100_000), long, long);
  expect(failing).toThrow(/^y{237}\.\.\.: y/);
  try {
    failing();
  } catch (error) {
    expect((error as Error).message.length).toBeLessThan(5000);
  }
});

test("warnings are few and short, however many keys nobody knows", () => {
  const deep = nested(100_000);
  const given = Object.fromEntries(
    Array.from({ length: 100_000 }, (_, index) => [`${"k".repeat(1000)}${index}`, deep]),
  );
  const warnings = unknownKeyWarnings(given, ["lookup_timeout_ms"], "extra.");
  expect(warnings).toHaveLength(17);
  expect(warnings.at(-1)?.problem).toContain("and 99983 more");
  for (const warning of warnings) expect(formatWarning(warning).length).toBeLessThan(400);
  expect(nearestName("x".repeat(8_000_000), ["lookup_timeout_ms"])).toBe(null);
});
