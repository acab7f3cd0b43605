/**
 * Goal: what a pool's keys are called neither breaks a table nor commands the terminal.
 * Method: cells and rows as others may name them.
 */
import { expect, test } from "vitest";
import { table } from "../../src/cli/table.ts";

test("columns stand below each other", () => {
  expect(
    table(
      ["name", "keys"],
      [
        ["a", "1"],
        ["long name", "20"],
      ],
    ),
  ).toEqual(["  name       keys", "  a          1", "  long name  20"]);
});

test("control characters are replaced, long cells cut, many rows counted", () => {
  const [, line = ""] = table(["name"], [["a\u001b[2Jb\n"]]);
  expect(line).toBe("  a\uFFFD[2Jb\uFFFD");
  expect(table(["name"], [["x".repeat(100_000)]])[1]?.length).toBe(1002);
  const many = table(
    ["name"],
    Array.from({ length: 300_000 }, () => ["x"]),
  );
  expect([many.length, many.at(-1)]).toEqual([102, "  and 299900 more"]);
});
