/**
 * Goal: what one end of the lookup RPC writes the other reads back, and no bytes whatever make the reader do worse than refuse.
 * Method: random requests and replies, there and back; random frames.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import {
  decodeLookupReply,
  decodeWireRequest,
  encodeLookupReply,
  encodeLookupRequest,
} from "../../src/connector/lookup-wire.ts";
import { MooncakeKvError } from "../../src/errors.ts";

const u32 = fc.integer({ min: 0, max: 0xffff_ffff });

it("reads requests back", () => {
  fc.assert(
    fc.property(u32, fc.constantFrom(16, 32, 0xffff), fc.nat(4), (tokens, hashBytes, count) => {
      const hashes = new Uint8Array(hashBytes * count).map((_, index) => index * 7);
      const read = decodeWireRequest(encodeLookupRequest({ tokens, hashBytes, hashes }));
      expect(read).toEqual({
        kind: "lookup",
        tokens,
        hashBytes: count === 0 ? 0 : hashBytes,
        hashes,
      });
    }),
  );
});

it("reads replies back", () => {
  fc.assert(
    fc.property(u32, fc.array(fc.tuple(u32, u32), { maxLength: 16 }), (hitTokens, tails) => {
      expect(decodeLookupReply(encodeLookupReply({ hitTokens, tails }))).toEqual({
        hitTokens,
        tails,
      });
    }),
  );
});

it("refuses what is no request, with an error of its own", () => {
  const tag = fc.constantFrom(
    Uint8Array.from(Buffer.from("lookup")),
    Uint8Array.from(Buffer.from("reset")),
  );
  const frames = fc.tuple(tag, fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 5 }));
  fc.assert(
    fc.property(frames, ([first, rest]) => {
      try {
        const read = decodeWireRequest([first, ...rest]);
        if (read.kind === "reset") expect(rest).toEqual([]);
        else expect([rest.length, rest[0]?.byteLength, rest[1]?.byteLength]).toEqual([3, 4, 2]);
      } catch (error) {
        expect(error).toBeInstanceOf(MooncakeKvError);
      }
    }),
    { numRuns: 1_000 },
  );
});

it("refuses numbers that do not fit", () => {
  const hashes = new Uint8Array(33);
  for (const bad of [
    { tokens: 2 ** 32, hashBytes: 0, hashes: new Uint8Array(0) },
    { tokens: -1, hashBytes: 0, hashes: new Uint8Array(0) },
    { tokens: 1, hashBytes: 32, hashes },
    { tokens: 1, hashBytes: 0, hashes },
    { tokens: 1, hashBytes: 0x10000, hashes: new Uint8Array(0x10000) },
  ])
    expect(() => encodeLookupRequest(bad)).toThrow(
      expect.objectContaining({ code: "INVALID_VALUE" }),
    );
});
