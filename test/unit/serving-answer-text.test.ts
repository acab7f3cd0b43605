/**
 * Goal: text is cut at stop strings exactly, wherever token and character borders lie, and nothing is given out that would
 * have to be taken back.
 * Method: every way to cut small texts into pieces against the plain search in the whole text; the byte tokenizer, whose
 * tokens split every character.
 */
import { describe, expect, test } from "vitest";
import { ByteTokenizer } from "../../src/serving/model/byte-tokenizer.ts";
import { AnswerText, type AnswerPiece } from "../../src/serving/http/answer-text.ts";
import { StopStrings } from "../../src/serving/http/stop-strings.ts";
import { jsonLogprob, tokenText } from "../../src/serving/http/token-text.ts";

const tokenizer = new ByteTokenizer(512);
const bytesOf = (text: string): number[] => [...new TextEncoder().encode(text)];

/** All ways to cut a text into pieces. */
function* cuts(text: string): Generator<string[]> {
  for (let mask = 0; mask < 2 ** (text.length - 1); mask++) {
    const pieces: string[] = [];
    let start = 0;
    for (let end = 1; end <= text.length; end++) {
      if (end < text.length && ((mask >> (end - 1)) & 1) === 0) continue;
      pieces.push(text.slice(start, end));
      start = end;
    }
    yield pieces;
  }
}

function answer(tokens: readonly number[], stops: readonly string[] = [], atEndToken = false) {
  const text = new AnswerText(tokenizer, stops);
  const pieces: AnswerPiece[] = [];
  for (const token of tokens) if (!text.stopped) pieces.push(text.push(token, -1, null));
  pieces.push(text.finish(atEndToken));
  return {
    text: pieces.map((piece) => piece.text).join(""),
    pieces: pieces.map((piece) => piece.text),
    tokens: pieces.flatMap((piece) => piece.tokens),
    stopped: text.stopped,
    count: text.tokenCount,
  };
}

describe("stop strings", () => {
  test.each([
    ["aabaabaac", ["aabaac"]],
    ["abcabd", ["abd", "zz"]],
    ["abab", ["aba"]],
    ["hello wor", ["world"]],
    ["xyzzy", ["zy", "yzz", "q"]],
    ["aaaa", ["aaaaa", "b"]],
  ])("in %j, stops %j: the same for every way to cut the text", (text, stops) => {
    const found = stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
    for (const pieces of cuts(text)) {
      const search = new StopStrings(stops);
      let given = "";
      for (const piece of pieces) {
        given += search.push(piece);
        // What is out can never be the beginning of a stop string that is still to come.
        expect(text.startsWith(given)).toBe(true);
      }
      expect(search.stopped).toBe(found.length > 0);
      if (!search.stopped) given += search.flush();
      // A stop that begins earlier but ends later than another is not waited for, so the cut is one of them.
      if (found.length === 0) expect(given).toBe(text);
      else expect(found.map((at) => text.slice(0, at))).toContain(given);
      if (stops.length === 1 && found.length === 1) expect(given).toBe(text.slice(0, found[0]));
      expect(search.push("more")).toBe(search.stopped ? "" : "more");
    }
  });

  test("only what may become a stop string is held back", () => {
    const search = new StopStrings(["\n\nUser:"]);
    expect([search.push("Hi"), search.push("\n"), search.push("\nUse"), search.push("d")]).toEqual([
      "Hi",
      "",
      "",
      "\n\nUsed",
    ]);
  });
});

describe("answer text", () => {
  test("characters come whole, whatever their bytes are spread over", () => {
    const { text, pieces } = answer(bytesOf("né😀日"));
    expect(text).toBe("né😀日");
    expect(pieces).toEqual(["n", "", "é", "", "", "", "😀", "", "", "日", ""]);
  });

  test("a text that is cut inside a character ends before it", () => {
    for (let cut = 1; cut <= 3; cut++) {
      const ended = answer(bytesOf("a😀").slice(0, -cut));
      expect(ended).toMatchObject({ text: "a", count: 5 - cut });
      expect(ended.tokens).toHaveLength(5 - cut);
    }
    // Bytes that can never become a character are no such cut.
    expect(answer([...bytesOf("a"), 0xff, ...bytesOf("b")]).text).toBe("a\ufffdb");
  });

  test("a stop string of several bytes a character cuts inside tokens' borders", () => {
    const cut = answer(bytesOf("ab日本語cd"), ["本語"]);
    expect(cut).toMatchObject({ text: "ab日", stopped: true });
    // Nothing after the token that completed the stop string was taken.
    expect(cut.count).toBe(bytesOf("ab日本語").length);
    expect(cut.tokens.map(({ token }) => token)).toEqual(bytesOf("ab日"));
  });

  test("tokens are reported with their first text, and offsets count characters", () => {
    const { tokens } = answer(bytesOf("é😀x"));
    expect(tokens.map(({ textOffset }) => textOffset)).toEqual([0, 0, 1, 1, 1, 1, 2]);
  });

  test("tokens held back with a possible stop string come out when it is none, and not when it is one", () => {
    expect(answer(bytesOf("ab<e"), ["<end>"]).tokens).toHaveLength(4);
    expect(answer(bytesOf("ab<end>"), ["<end>"]).tokens).toHaveLength(2);
  });

  test("the end token is counted and not reported", () => {
    const [end] = tokenizer.endTokenIds;
    const ended = answer([...bytesOf("ok"), end!], [], true);
    expect(ended).toMatchObject({ text: "ok", count: 3, stopped: false });
    expect(ended.tokens).toHaveLength(2);
    expect(answer([...bytesOf("ok"), end!], [], false).tokens).toHaveLength(3);
  });

  test("half a character completes no stop string", () => {
    expect(answer(bytesOf("a😀").slice(0, -1), ["\ufffd"])).toMatchObject({
      text: "a",
      stopped: false,
    });
  });
});

test("names of tokens differ where bytes differ, and probabilities are JSON", () => {
  expect([0x61, 0xc3, 257, 511].map((token) => tokenText(tokenizer, token))).toEqual([
    "a",
    "bytes:\\xc3",
    "token_id:257",
    "token_id:511",
  ]);
  expect([-0.5, -Infinity, Number.NaN].map(jsonLogprob)).toEqual([-0.5, -9999, null]);
});
