/**
 * Goal: the traps of vLLM's block hashes. NONE_HASH of an unset PYTHONHASHSEED is a fixed text for SHA-256 and random for xxhash, and
 * "random" is a text like any other; the default hash is SHA-256 of a pickle whose bytes depend on object identity; extra keys come
 * in one order, with offsets from the block's start; hashes are never cut, except in KV events.
 * Method: messages written by hand, byte for byte, and cborg's view of ours.
 */
import { createHash } from "node:crypto";
import { decode } from "cborg";
import { describe, expect, test } from "vitest";
import { DEFAULT_HASH_ALGORITHM } from "../../../src/config/kv-cache-config.ts";
import { externalBlockHash } from "../../../src/events/kv-events.ts";
import { encodeExtra } from "../../../src/keys/block-extra.ts";
import type { HashRequest } from "../../../src/keys/block-extra.ts";
import { BlockHasher, hashBlocks, hashHex } from "../../../src/keys/block-hash.ts";
import { noneHash, noneHashIsRandom } from "../../../src/keys/none-hash.ts";

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
/** A short text in CBOR, and alone in a pickle of protocol 5: frame, SHORT_BINUNICODE, MEMOIZE, STOP. */
const cborText = (text: string): Uint8Array =>
  Buffer.concat([Buffer.of(0x60 | text.length), Buffer.from(text)]);
const pickleText = (text: string): Uint8Array => {
  const body = Buffer.concat([
    Buffer.of(0x8c, text.length),
    Buffer.from(text),
    Buffer.of(0x94, 0x2e),
  ]);
  const frame = Buffer.of(0x80, 5, 0x95, body.length, 0, 0, 0, 0, 0, 0, 0);
  return Buffer.concat([frame, body]);
};

describe("trap 1: NONE_HASH", () => {
  test("without a seed SHA-256 hashes a fixed text, so that nobody need set one", () => {
    expect(hex(noneHash(null, "sha256"))).toBe(sha256(pickleText("vllm-none-hash")));
    const cbor = createHash("sha256").update(cborText("vllm-none-hash")).digest("hex");
    expect(hex(noneHash(null, "sha256_cbor"))).toBe(cbor);
    expect(noneHashIsRandom(null, "sha256") || noneHashIsRandom(null, "sha256_cbor")).toBe(false);
  });

  test.each(["xxhash", "xxhash_cbor"] as const)("without a seed %s draws random bytes", (name) => {
    expect(noneHashIsRandom(null, name)).toBe(true);
    expect(noneHashIsRandom("", name)).toBe(false);
    expect(noneHash(null, name, (count) => new Uint8Array(count).fill(9))).toHaveLength(32);
  });

  test("a number and the word random are texts as they are written", () => {
    for (const seed of ["random", "0", "00", " 0"])
      expect(hex(noneHash(seed, "sha256"))).toBe(sha256(pickleText(seed)));
  });
});

describe("trap 2: the default is SHA-256 over a pickle", () => {
  const parent = new Uint8Array(32).fill(1);
  const message = (request: HashRequest): string => {
    const hasher = new BlockHasher("sha256");
    const { tokens, blockSize } = request;
    return hex(hasher.message(parent, tokens, 0, blockSize, encodeExtra(0, request, "pickle")));
  };

  test("it is the default", () => expect(DEFAULT_HASH_ALGORITHM).toBe("sha256"));

  test("tuples of one to three have opcodes of their own, longer ones a mark", () => {
    for (const [count, end] of [
      [1, "8594"],
      [2, "8694"],
      [3, "8794"],
    ] as const) {
      const tokens = Array.from({ length: count }, () => 7);
      // Parent, tokens, None, TUPLE3 of all, STOP.
      const integers = "4b07".repeat(count);
      expect(message({ tokens, blockSize: count })).toMatch(
        new RegExp(`4320(01){32}94${integers}${end}4e87942e$`),
      );
    }
    expect(message({ tokens: [7, 7, 7, 7], blockSize: 4 })).toContain(`28${"4b07".repeat(4)}7494`);
  });

  test("the second mm of a block refers to the first: one object in vLLM", () => {
    const item = (identifier: string, offset: number) => ({ identifier, offset, length: 1 });
    const text = message({
      tokens: [1, 2],
      blockSize: 2,
      multiModal: [item("aa", 0), item("bb", 1)],
    });
    const tag = hex(Buffer.from("\x8c\x02mm", "latin1"));
    expect(text.split(tag)).toHaveLength(2);
    // BINGET of memo 2, which is the tag: parent and tokens come before it.
    expect(text).toContain("6802");
    // Equal identifiers are two objects all the same.
    const same = message({
      tokens: [1, 2],
      blockSize: 2,
      multiModal: [item("aa", 0), item("aa", 1)],
    });
    expect(same.split(hex(Buffer.from("\x8c\x02aa", "latin1")))).toHaveLength(3);
  });
});

describe("trap 3: CBOR and the order of extra keys", () => {
  const request: HashRequest = {
    tokens: [1, 2, 3, 4, 5, 6],
    blockSize: 2,
    lora: { name: "adapter", path: "/a" },
    multiModal: [{ identifier: "image", offset: 1, length: 3 }],
    cacheSalt: "salt",
    promptEmbeds: { bytes: Uint8Array.from({ length: 6 }, (_, index) => index), rowBytes: 1 },
  };
  const written = (block: number, lookahead = 0): unknown => {
    const hasher = new BlockHasher("sha256_cbor");
    const one = { ...request, lookaheadTokens: lookahead };
    const extra = encodeExtra(block, one, "cbor");
    const at = block * 2;
    return decode(hasher.message(new Uint8Array(32), request.tokens, at, at + 2, extra, lookahead));
  };
  const digest = (...rows: number[]): Uint8Array =>
    Uint8Array.from(createHash("sha256").update(Buffer.from(rows)).digest());

  test("adapter, images, salt, embeddings; the salt in block 0 only, offsets from the block's start", () => {
    expect(written(0)).toEqual([
      new Uint8Array(32),
      [1, 2],
      [
        ["lora", "adapter", "/a"],
        ["mm", "image", 1],
        ["cache_salt", "salt"],
        ["prompt_embeds", digest(0, 1)],
      ],
    ]);
    expect(written(1)).toEqual([
      new Uint8Array(32),
      [3, 4],
      [
        ["lora", "adapter", "/a"],
        ["mm", "image", -1],
        ["prompt_embeds", digest(2, 3)],
      ],
    ]);
  });

  test("look-ahead tokens follow the extra keys, which then cover them too", () => {
    expect((written(0, 2) as unknown[])[2]).toEqual([
      [
        ["lora", "adapter", "/a"],
        ["mm", "image", 1],
        ["cache_salt", "salt"],
        ["prompt_embeds", digest(0, 1, 2, 3)],
      ],
      3,
      4,
    ]);
    const plain = new BlockHasher("sha256_cbor");
    const bytes = plain.message(new Uint8Array(32), [1, 2, 3], 0, 2, null, 1);
    expect(decode(bytes)).toEqual([new Uint8Array(32), [1, 2], [null, 3]]);
  });

  test("no extra keys are null, and integers take their shortest form", () => {
    const plain = new BlockHasher("sha256_cbor");
    const bytes = plain.message(Uint8Array.of(1), [23, 24, 256, 65_536], 0, 4, null);
    expect(hex(bytes)).toBe(
      ["83", "4101", "84", "17", "1818", "190100", "1a00010000", "f6"].join(""),
    );
  });
});

describe("trap 4: hashes are whole in keys, low 64 bits in events", () => {
  const request = { tokens: [1, 2, 3, 4], blockSize: 4 };
  test.each([
    ["sha256", 64],
    ["sha256_cbor", 64],
    ["xxhash", 32],
    ["xxhash_cbor", 32],
  ] as const)("%s: %i hex digits", (name, digits) => {
    const digests = hashBlocks(request, noneHash("0", name), name);
    expect(hashHex(digests, 0, digits / 2)).toMatch(new RegExp(`^[0-9a-f]{${digits}}$`));
    expect(externalBlockHash(digests, true)).toBe(BigInt(`0x${hex(digests).slice(-16)}`));
    expect(externalBlockHash(digests, false)).toEqual(digests);
  });
});
