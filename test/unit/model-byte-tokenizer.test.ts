/**
 * Goal: the byte tokenizer and the streaming decoder give text back unchanged and never emit half a character.
 * Method: texts with characters of one to four bytes, fed token by token; damaged byte sequences; the chat form by hand.
 */
import { describe, expect, test } from "vitest";
import {
  BYTE_TOKENIZER_SPECIALS as SPECIALS,
  ByteTokenizer,
} from "../../src/serving/model/byte-tokenizer.ts";
import { byteLevelAlphabet } from "../../src/serving/model/byte-level-alphabet.ts";
import { TokenBytes } from "../../src/serving/model/token-bytes.ts";

const tokenizer = new ByteTokenizer(512);
const bytesOf = (text: string): number[] => [...new TextEncoder().encode(text)];

function stream(tokenIds: ArrayLike<number>): string[] {
  const decoder = tokenizer.streamingDecoder();
  return [...Array.from(tokenIds, (tokenId) => decoder.push(tokenId)), decoder.flush()];
}

describe("byte tokenizer", () => {
  test("text becomes the begin token and its bytes, and comes back", () => {
    expect([...tokenizer.encode("aé")]).toEqual([SPECIALS.begin, 0x61, 0xc3, 0xa9]);
    expect([...tokenizer.encode("")]).toEqual([SPECIALS.begin]);
    for (const text of ["", "plain", "naïve 日本語 😀\n\0", "\ufeffmark first"]) {
      expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
    }
    expect(tokenizer.vocabSize).toBe(512);
  });

  test("special and unused ids have no text, and text never becomes a special token", () => {
    expect(
      tokenizer.decode([0x61, SPECIALS.messageEnd, SPECIALS.end, 300, 511, 512, -1, 0x62]),
    ).toBe("ab");
    expect(tokenizer.tokenBytes(SPECIALS.begin)).toHaveLength(0);
    expect([...tokenizer.tokenBytes(0xc3)]).toEqual([0xc3]);
    const tokenIds = tokenizer.encode("<|im_end|><message end>");
    expect([...tokenIds.subarray(1)].every((tokenId) => tokenId < 256)).toBe(true);
  });

  test("a conversation", () => {
    const tokenIds = tokenizer.encodeChat([
      { role: "system", content: "be kind" },
      { role: "user", content: "é" },
    ]);
    expect([...tokenIds]).toEqual([
      SPECIALS.begin,
      SPECIALS.messageStart,
      ...bytesOf("system\nbe kind"),
      SPECIALS.messageEnd,
      ...bytesOf("\n"),
      SPECIALS.messageStart,
      ...bytesOf("user\né"),
      SPECIALS.messageEnd,
      ...bytesOf("\n"),
      SPECIALS.messageStart,
      ...bytesOf("assistant\n"),
    ]);
    expect(tokenizer.endTokenIds).toContain(SPECIALS.messageEnd);
  });
});

describe("streaming decoder", () => {
  test("a character comes out whole, with its last byte", () => {
    expect(stream(bytesOf("a😀é"))).toEqual(["a", "", "", "", "😀", "", "é", ""]);
  });

  test("bytes that can never become a character come out as U+FFFD, the rest is kept", () => {
    expect(stream([0xff, 0x61]).join("")).toBe("\ufffda");
    expect(stream([0xe6, 0x97, 0x61]).join("")).toBe("\ufffda");
    expect(stream([0x61, 0xe6, 0x97])).toEqual(["a", "", "", "\ufffd"]);
  });

  test("pieces joined equal the whole for arbitrary bytes", () => {
    for (let seed = 1; seed <= 200; seed++) {
      let state = seed;
      const tokenIds = Array.from({ length: 40 }, () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state >>> 24;
      });
      const pieces = stream(tokenIds);
      expect(pieces.join("")).toBe(tokenizer.decode(tokenIds));
      expect(pieces.join("")).toBe(
        new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(tokenIds)),
      );
    }
  });

  test("tokens of several bytes may share characters", () => {
    const [first, second, third, fourth] = bytesOf("😀") as [number, number, number, number];
    const bytes = new TokenBytes([
      Uint8Array.of(0x61, first, second),
      Uint8Array.of(third, fourth, 0x62),
    ]);
    const decoder = bytes.streamingDecoder();
    expect([decoder.push(0), decoder.push(1), decoder.flush()]).toEqual(["a", "😀b", ""]);
  });
});

test("the byte-level alphabet is one visible character for each byte", () => {
  const alphabet = byteLevelAlphabet();
  expect(alphabet.size).toBe(256);
  expect(new Set(alphabet.values()).size).toBe(256);
  // Known members of published vocabularies: a blank, a line end, a tab, the first byte of many accents.
  expect(["Ġ", "Ċ", "ĉ", "Ã", "a"].map((character) => alphabet.get(character))).toEqual([
    0x20, 0x0a, 0x09, 0xc3, 0x61,
  ]);
});
