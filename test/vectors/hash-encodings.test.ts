/**
 * Goal: the TypeScript twin's XXH3 and pickles are those of the reference library and of CPython, at every length where a rule
 * changes: short and long inputs, one frame and several, payloads that stand outside of frames, integers of every size.
 * Method: the golden values that the native tests use, made by CPython, read out of their header.
 */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { PickleWriter } from "../../src/keys/pickle-writer.ts";
import { xxh3Digest } from "../../src/keys/xxh3.ts";

const golden = readFileSync(new URL("../native/golden_encodings.h", import.meta.url), "utf8");
const rows = (pattern: RegExp): string[][] =>
  [...golden.matchAll(pattern)].map((match) => match.slice(1));

it("XXH3 equals the reference library's at 43 lengths", () => {
  const cases = rows(/\{(\d+), "([0-9a-f]{32})"\}/g);
  expect(cases.length).toBe(43);
  for (const [length, digest] of cases) {
    const count = Number(length);
    // One byte before and after, which must not count.
    const memory = Uint8Array.from({ length: count + 2 }, (_, at) => {
      const index = at - 1;
      return (index * index * 7 + index * 13 + count) & 0xff;
    });
    const out = new Uint8Array(20);
    xxh3Digest(memory.subarray(1, count + 1), out, 3);
    expect(Buffer.from(out.subarray(3, 19)).toString("hex"), `${length} bytes`).toBe(digest);
  }
});

it("pickles equal CPython's, up to several frames", () => {
  const cases = rows(/\{(\d+), (\d+), (\d+), (\d+), "([0-9a-f]{64})"\}/g);
  expect(cases.length).toBe(34);
  for (const [tokens, lookahead, salt, bytes, digest] of cases) {
    const message = pickle(Number(tokens), Number(lookahead), Number(salt));
    const label = `${tokens} tokens, look-ahead ${lookahead}, salt ${salt}`;
    expect(message.length, label).toBe(Number(bytes));
    expect(createHash("sha256").update(message).digest("hex"), label).toBe(digest);
  }
});

it("writes integers as CPython does", () => {
  const writer = new PickleWriter();
  const written = (value: number): string => {
    writer.reset();
    writer.integer(value);
    return Buffer.from(writer.view()).toString("hex");
  };
  // pickle.dumps(value, 5) between the protocol's head and the stop.
  expect(written(-1)).toBe("4affffffff");
  expect(written(-(2 ** 31))).toBe("4a00000080");
  expect(written(-(2 ** 31) - 1)).toBe("8a05ffffff7fff");
  expect(written(-(2 ** 39))).toBe("8a050000000080");
  expect(written(2 ** 31)).toBe("8a050000008000");
  expect(written(2 ** 39 - 1)).toBe("8a05ffffffff7f");
  expect(written(2 ** 53 - 1)).toBe("8a07ffffffffffff1f");
});

it("refers to texts of at most one character up to U+00FF, and to no other equal texts", () => {
  // pickle.dumps(("a", "a", "\u00ff", "\u00ff", "", "", "ab", "ab", "\u0100", "\u0100"), 5), every text decoded on its own.
  const expected =
    "8005952a00000000000000288c01619468008c02c3bf9468018c009468028c026162948c026162948c02c480948c02c4809474942e";
  const writer = new PickleWriter();
  writer.array(10);
  for (const text of ["a", "\u00ff", "", "ab", "\u0100"]) {
    writer.text(text);
    writer.text(text);
  }
  writer.endArray(10);
  expect(Buffer.from(writer.message()).toString("hex")).toBe(expected);
});

function pickle(tokens: number, lookahead: number, salt: number): Uint8Array {
  const writer = new PickleWriter();
  const token = (index: number): void => writer.integer((Math.imul(index, 40503) + 7) >>> 0);
  writer.array(3);
  writer.bytes(Uint8Array.from({ length: 32 }, (_, index) => index));
  writer.array(tokens);
  for (let index = 0; index < tokens; index++) token(index);
  writer.endArray(tokens);
  if (lookahead > 0) writer.array(1 + lookahead);
  if (salt === 0) writer.null();
  else {
    writer.array(1);
    writer.array(2);
    writer.tag("cache_salt");
    writer.text("s".repeat(salt));
    writer.endArray(2);
    writer.endArray(1);
  }
  for (let index = tokens; index < tokens + lookahead; index++) token(index);
  if (lookahead > 0) writer.endArray(1 + lookahead);
  writer.endArray(3);
  return writer.message();
}
