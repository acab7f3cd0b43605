/**
 * Goal: KV events have vLLM's bytes, and whatever any vLLM version sends is read.
 * Method: bytes that msgspec made of vLLM's own structures (golden/kv-events.json) against values written here, both ways; then
 * payloads that are broken in one place each.
 */
import { readFileSync } from "node:fs";
import { encode } from "@msgpack/msgpack";
import { describe, expect, test } from "vitest";
import { decodeBatch } from "../../src/events/decode-batch.ts";
import { msgpackProblem } from "../../src/events/msgpack-shape.ts";
import { KvEventEncoder } from "../../src/events/encode-batch.ts";
import { blockHashText, externalBlockHash } from "../../src/events/kv-events.ts";
import type { KvEvent, KvEventBatch } from "../../src/events/kv-events.ts";

const golden = new Map<string, Uint8Array>(
  (
    JSON.parse(readFileSync(new URL("golden/kv-events.json", import.meta.url), "utf8")) as {
      cases: { name: string; bytes: string }[];
    }
  ).cases.map(({ name, bytes }) => [name, new Uint8Array(Buffer.from(bytes, "hex"))]),
);

const digest = Uint8Array.from({ length: 32 }, (_, index) => index);
const none = { loraId: null, medium: null, loraName: null } as const;

function batch(
  timestampSeconds: number,
  events: readonly KvEvent[],
  dataParallelRank: number | null,
): KvEventBatch {
  return { timestampSeconds, events, dataParallelRank };
}

const long: KvEvent = {
  type: "BlockStored",
  blockHashes: Array.from({ length: 20 }, (_, index) => BigInt(index) * 2n ** 50n + BigInt(index)),
  parentBlockHash: 9n,
  tokenIds: Array.from({ length: 300 }, (_, index) => index * 700),
  blockSize: 15,
  ...none,
  medium: "M".repeat(300),
};

/** What msgspec wrote, as this project says it. */
const written: Record<string, KvEventBatch> = {
  cleared: batch(1_700_000_000.25, [{ type: "AllBlocksCleared" }], 0),
  no_rank: batch(5, [], null),
  removed: batch(
    1.5,
    [
      { type: "BlockRemoved", blockHashes: [2n ** 64n - 1n], medium: "GPU", groupIndex: 3 },
      {
        type: "BlockRemoved",
        blockHashes: [digest],
        medium: null,
        locality: "REMOTE",
        ownership: "disk",
      },
    ],
    2,
  ),
  pool_stored: batch(
    1_754_000_000.125,
    [
      {
        type: "BlockStored",
        blockHashes: [0x0123456789abcdefn],
        parentBlockHash: null,
        tokenIds: Array.from({ length: 16 }, (_, index) => index),
        blockSize: 16,
        ...none,
        medium: "cpu",
        groupIndex: 0,
      },
    ],
    0,
  ),
  integers: batch(
    0,
    [
      {
        type: "BlockStored",
        blockHashes: [
          0n,
          1n,
          127n,
          128n,
          255n,
          256n,
          65_535n,
          65_536n,
          2n ** 31n,
          2n ** 32n - 1n,
          2n ** 32n,
          2n ** 53n - 1n,
          2n ** 53n,
          2n ** 63n,
          2n ** 64n - 1n,
        ],
        parentBlockHash: 2n ** 40n,
        tokenIds: [0, 127, 128, 65_536, 151_935, 2 ** 31 - 1],
        blockSize: 128,
        loraId: -1,
        medium: "GPU",
        loraName: "adapter",
      },
    ],
    300,
  ),
  every_field: batch(
    1e9 + 1 / 3,
    [
      {
        type: "BlockStored",
        blockHashes: [digest, digest.toReversed()],
        parentBlockHash: digest.slice(0, 16),
        tokenIds: [5, 6, 7, 8],
        blockSize: 2,
        loraId: 7,
        medium: "STORAGE",
        loraName: `müller-${"x".repeat(40)}`,
        extraKeys: [["müller", ["image-1", -3], "salt", Uint8Array.of(1, 2)], null],
        groupIndex: 1,
        kvCacheSpecKind: "sliding_window",
        kvCacheSpecSlidingWindow: 4096,
        locality: "LOCAL",
        ownership: "tier",
        sessionId: "s",
        lookaheadTokenIds: [[9], [10]],
      },
    ],
    1,
  ),
  long: batch(
    2,
    Array.from({ length: 17 }, () => long),
    0,
  ),
};

describe("bytes of vLLM's structures", () => {
  const encoder = new KvEventEncoder();
  test.each(Object.entries(written))("%s", (name, value) => {
    const bytes = golden.get(name)!;
    expect(Buffer.from(encoder.encode(value)).toString("hex")).toBe(
      Buffer.from(bytes).toString("hex"),
    );
    expect(decodeBatch(bytes)).toEqual({ ...value, unknownEvents: 0 });
  });

  test("no case of the file is left out", () => {
    const read = ["positional_oldest", "positional_later", "map_batch"];
    expect([...golden.keys()].sort()).toEqual([...Object.keys(written), ...read].sort());
  });
});

describe("what other versions send", () => {
  test("positional events that end before the newer fields", () => {
    expect(decodeBatch(golden.get("positional_oldest")!)).toEqual({
      timestampSeconds: 3.5,
      dataParallelRank: null,
      unknownEvents: 0,
      events: [
        {
          type: "BlockStored",
          blockHashes: [2n ** 63n + 1n],
          parentBlockHash: null,
          tokenIds: [1, 2],
          blockSize: 2,
          ...none,
        },
        { type: "BlockRemoved", blockHashes: [5n], medium: null },
        { type: "AllBlocksCleared" },
      ],
    });
    expect(decodeBatch(golden.get("positional_later")!).events).toEqual([
      {
        type: "BlockStored",
        blockHashes: [digest],
        parentBlockHash: digest,
        tokenIds: [1, 2],
        blockSize: 2,
        ...none,
        medium: "GPU",
        groupIndex: 4,
      },
      { type: "BlockRemoved", blockHashes: [digest], medium: "GPU" },
    ]);
  });

  test("a batch as a map, unknown events and unknown fields", () => {
    expect(decodeBatch(golden.get("map_batch")!)).toEqual({
      timestampSeconds: 4.5,
      dataParallelRank: 6,
      unknownEvents: 1,
      events: [
        { type: "AllBlocksCleared" },
        { type: "BlockRemoved", blockHashes: [1n], medium: null },
      ],
    });
  });

  test("positional events with fields from the future", () => {
    const payload = encode([1, [["BlockRemoved", [7], "GPU", 0, null, null, "new"]], 0, "newer"]);
    expect(decodeBatch(payload).events).toEqual([
      { type: "BlockRemoved", blockHashes: [7n], medium: "GPU", groupIndex: 0 },
    ]);
  });
});

test("broken payloads are refused with the field's name", () => {
  const stored = {
    type: "BlockStored",
    block_hashes: [1],
    parent_block_hash: null,
    token_ids: [1],
    block_size: 1,
  };
  const cases: [unknown, string, string][] = [
    [5, "INVALID_TYPE", "batch"],
    [["now", [], 0], "INVALID_TYPE", "ts"],
    [[1, null, 0], "INVALID_TYPE", "events"],
    [[1, [], "0"], "INVALID_TYPE", "data_parallel_rank"],
    [[1, [5], 0], "INVALID_TYPE", "events[0]"],
    [[1, [[7]], 0], "INVALID_TYPE", "events[0].type"],
    [[1, [{ ...stored, block_hashes: null }], 0], "MISSING", "events[0].block_hashes"],
    [[1, [{ ...stored, block_hashes: ["x"] }], 0], "INVALID_TYPE", "events[0].block_hashes[0]"],
    [[1, [{ ...stored, token_ids: [0.5] }], 0], "INVALID_TYPE", "events[0].token_ids[0]"],
    [[1, [{ ...stored, token_ids: [1, -1] }], 0], "INVALID_TYPE", "events[0].token_ids[1]"],
    [[1, [{ ...stored, token_ids: [2 ** 32] }], 0], "INVALID_TYPE", "events[0].token_ids[0]"],
    [[1, [{ ...stored, medium: 5 }], 0], "INVALID_TYPE", "events[0].medium"],
    [[1, [{ ...stored, extra_keys: [1] }], 0], "INVALID_TYPE", "events[0].extra_keys[0]"],
  ];
  for (const [value, code, field] of cases)
    expect(() => decodeBatch(encode(value))).toThrow(expect.objectContaining({ code, field }));
  expect(() => decodeBatch(Uint8Array.of(0xc1))).toThrow(
    expect.objectContaining({ code: "INVALID_VALUE", field: "KV event batch" }),
  );
});

test.each<[string, number[]]>([
  ["a list of 2^32-1 elements in five bytes", [0xdd, 0xff, 0xff, 0xff, 0xff]],
  ["a map of as many", [0xdf, 0xff, 0xff, 0xff, 0xff]],
  // Each claims as many elements as there are bytes left: a decoder would make room for all of them.
  [
    "many lists that claim all that follows",
    Array.from({ length: 20_000 }, () => [0xdc, 0xff, 0xff]).flat(),
  ],
  ["lists inside each other", Array.from({ length: 100_000 }, () => 0x91)],
  ["a text that ends too early", [0x93, 0x01, 0xdb, 0xff, 0xff, 0xff, 0xff]],
  ["an empty message", []],
])("%s is refused before it is decoded", (_what, bytes) => {
  expect(() => decodeBatch(Uint8Array.from(bytes))).toThrow(
    expect.objectContaining({ code: "INVALID_VALUE", field: "KV event batch" }),
  );
});

test("whatever msgpack writes has a shape that is let through", () => {
  const values: unknown[] = [0, -1, 2 ** 40, 1.5, "", "x".repeat(300), "y".repeat(70_000), null];
  values.push(new Uint8Array(3), new Uint8Array(300), new Uint8Array(70_000), new Date(1), [[]]);
  values.push(
    2n ** 63n,
    { a: { b: [1, {}] } },
    Array.from({ length: 70_000 }, () => 1),
    true,
  );
  values.push(Object.fromEntries(Array.from({ length: 20 }, (_, index) => [index, index])));
  for (const value of [...values, values])
    expect(msgpackProblem(encode(value, { useBigInt64: true }))).toBe(null);
});

test("a digest outside: its low 64 bits, or a copy of all of it", () => {
  const outside = externalBlockHash(digest, true);
  expect(outside).toBe(0x18191a1b1c1d1e1fn);
  expect(blockHashText(outside)).toBe("18191a1b1c1d1e1f");
  const whole = externalBlockHash(digest, false);
  expect(whole).toEqual(digest);
  expect(whole).not.toBe(digest);
  expect(blockHashText(whole)).toBe(Buffer.from(digest).toString("hex"));
});
