/**
 * Goal: what actors write of their blocks comes out as vLLM's events, in order, whatever the ring's position; when there is no
 * room, new records are lost and counted, and nothing else is.
 * Method: rows of tokens and digests in page arenas of several pages, rings of a few records around which many go.
 */
import { describe, expect, test } from "vitest";
import { HASH_PAGE_WORDS, HASH_STRIDE_WORDS, TOKEN_PAGE_WORDS } from "../../src/blocks/layout.ts";
import { PageAllocator, PageArena } from "../../src/blocks/page-arena.ts";
import { createEventRing, EventRingReader, EventRingWriter } from "../../src/events/event-ring.ts";
import { CODE_GPU, CODE_POOL, KvEventWriter } from "../../src/events/event-records.ts";
import { KvEventSource } from "../../src/events/event-source.ts";

const HASH_BLOCK = 4;
const TOKENS = 1200;

/** A request of 1200 tokens: token i is 10 i, digest j is bytes j, j + 1, ... */
function rows(): {
  tokens: PageArena;
  hashes: PageArena;
  tokenPage: number;
  hashPage: number;
} {
  const tokens = new PageArena(new Int32Array(4 * TOKEN_PAGE_WORDS), TOKEN_PAGE_WORDS, 1);
  const hashes = new PageArena(
    new Int32Array(8 * HASH_PAGE_WORDS),
    HASH_PAGE_WORDS,
    HASH_STRIDE_WORDS,
  );
  const tokenPage = new PageAllocator(tokens).allocate(TOKENS);
  const hashPage = new PageAllocator(hashes).allocate(TOKENS / HASH_BLOCK);
  for (let token = 0; token < TOKENS; token++) tokens.set(tokenPage, token, 10 * token);
  const bytes = new Uint8Array(hashes.words.buffer);
  for (let hash = 0; hash < TOKENS / HASH_BLOCK; hash++)
    bytes.set(digest(hash), hashes.offset(hashPage, hash) * 4);
  return { tokens, hashes, tokenPage, hashPage };
}
function digest(hash: number): Uint8Array {
  return Uint8Array.from({ length: 32 }, (_, index) => hash + index);
}
/** The low 64 bits of a digest of `bytes` bytes. */
function low(hash: number, bytes: number): bigint {
  return Buffer.from(digest(hash).buffer).readBigUInt64BE(bytes - 8);
}

const groups = [
  { kind: "full", slidingWindow: null },
  { kind: "swa", slidingWindow: 64 },
] as const;

describe("events out of rows", () => {
  const { tokens, hashes, ...request } = rows();
  const ring = createEventRing(4096);
  const writer = new KvEventWriter(ring, { tokens, hashes }, HASH_BLOCK);
  const source = (integerHashes: boolean, digestBytes = 32): KvEventSource =>
    new KvEventSource({ rings: [ring], digestBytes, integerHashes, groups });
  const range = (from: number, to: number): number[] =>
    Array.from({ length: to - from }, (_, index) => 10 * (from + index));

  test("a pool block in the middle, whose tokens and hashes lie on two pages", () => {
    // Block 62 of 16 tokens ends with hash 251; tokens 992 to 1007 end a page of 1008, hash 248 begins one.
    const run = { group: 0, blockSize: 16, blocks: 1, plain: false } as const;
    for (const firstBlock of [62, 63])
      expect(writer.stored(request, { ...run, medium: CODE_POOL, firstBlock })).toBe(true);
    expect(source(true).take()).toEqual(
      [62, 63].map((block) => ({
        type: "BlockStored",
        blockHashes: [low(4 * block + 3, 32)],
        parentBlockHash: low(4 * block - 1, 32),
        tokenIds: range(16 * block, 16 * block + 16),
        blockSize: 16,
        loraId: null,
        medium: "cpu",
        loraName: null,
        groupIndex: 0,
      })),
    );
  });

  test("a run of local blocks says its group's kind, and that nothing but tokens was hashed", () => {
    const run = { medium: CODE_GPU, group: 1, blockSize: 8, firstBlock: 0, blocks: 3 } as const;
    writer.stored(request, { ...run, plain: true });
    writer.stored(request, { ...run, firstBlock: 3, blocks: 1, plain: false });
    writer.removed(CODE_GPU, 1, hashes.words, hashes.offset(request.hashPage, 5));
    writer.cleared();
    expect(source(true, 16).take()).toEqual([
      {
        type: "BlockStored",
        blockHashes: [low(1, 16), low(3, 16), low(5, 16)],
        parentBlockHash: null,
        tokenIds: range(0, 24),
        blockSize: 8,
        loraId: null,
        medium: "GPU",
        loraName: null,
        extraKeys: [null, null, null],
        groupIndex: 1,
        kvCacheSpecKind: "sliding_window",
        kvCacheSpecSlidingWindow: 64,
      },
      expect.objectContaining({ parentBlockHash: low(5, 16), blockHashes: [low(7, 16)] }),
      { type: "BlockRemoved", blockHashes: [low(5, 16)], medium: "GPU", groupIndex: 1 },
      { type: "AllBlocksCleared" },
    ]);
  });

  test("whole digests on demand", () => {
    const run = { medium: CODE_GPU, group: 0, blockSize: 4, firstBlock: 1, blocks: 1 } as const;
    writer.stored(request, { ...run, plain: false });
    const [event] = source(false).take();
    expect(event).toMatchObject({ blockHashes: [digest(1)], parentBlockHash: digest(0) });
    expect(event).not.toHaveProperty("extraKeys");
    writer.removed(CODE_POOL, 0, hashes.words, hashes.offset(request.hashPage, 9));
    expect(source(false, 16).take()).toMatchObject([{ blockHashes: [digest(9).slice(0, 16)] }]);
  });
});

describe("a ring", () => {
  const record = (length: number, value: number): number[] =>
    Array.from({ length }, (_, index) => value + index);
  const write = (writer: EventRingWriter, words: readonly number[]): boolean => {
    if (!writer.open(words.length)) return false;
    for (const word of words) writer.put(word);
    writer.close();
    return true;
  };
  const read = (reader: EventRingReader, most = Infinity): number[][] =>
    [...reader.drain(most)].map((words) => [...words]);

  test("keeps what is published, loses what is new, and counts it", () => {
    const ring = createEventRing(64);
    const writer = new EventRingWriter(ring);
    const reader = new EventRingReader(ring);
    for (let round = 0; round < 100; round++) {
      const words = [19, 20, 21].map((length) => record(length, round * 100 + length));
      // 19 + 20 + 21 words and a length each: 63 of 64.
      for (const one of words) expect(write(writer, one)).toBe(true);
      expect(write(writer, [1])).toBe(false);
      expect(write(writer, record(100, 0))).toBe(false);
      expect(reader.lost()).toBe(2 * round + 2);
      expect(read(reader, 1)).toEqual(words.slice(0, 1));
      expect(write(writer, [round])).toBe(true);
      expect(read(reader)).toEqual([...words.slice(1), [round]]);
    }
  });

  test("goes on with a successor of a writer that died inside a record", () => {
    const ring = createEventRing(64);
    const dead = new EventRingWriter(ring);
    write(dead, [1, 2]);
    dead.open(5);
    dead.put(7);
    const successor = new EventRingWriter(ring);
    write(successor, [3]);
    expect(read(new EventRingReader(ring))).toEqual([[1, 2], [3]]);
  });
});
