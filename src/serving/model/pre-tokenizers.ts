import { CHARACTER_CLASS } from "./character-classes.ts";

const { letter: LETTER, number: NUMBER, space: SPACE, digit: DIGIT } = CHARACTER_CLASS;

/**
 * The patterns spell out their character classes: `\s`, `\d` and `\p{...}` of JavaScript hold other characters than those of the
 * original's regular expressions, and other ones with each Unicode version.
 *
 * GPT-2's: contractions, words and numbers and runs of signs with their leading blank, runs of white space.
 */
const GPT_2_PATTERN = [
  "'s|'t|'re|'ve|'m|'ll|'d",
  ` ?[${LETTER}]+`,
  ` ?[${NUMBER}]+`,
  ` ?[^${SPACE}${LETTER}${NUMBER}]+`,
  `[${SPACE}]+(?![^${SPACE}])`,
  `[${SPACE}]+`,
].join("|");

/** Words with their leading blank, contractions, up to three digits, runs of signs and of line ends. */
const LLAMA_3_PATTERN = [
  ...["s", "t", "re", "ve", "m", "ll", "d"].map((ending) => `'${ignoringCase(ending)}`),
  `[^\\r\\n${LETTER}${NUMBER}]?[${LETTER}]+`,
  `[${NUMBER}]{1,3}`,
  ` ?[^${SPACE}${LETTER}${NUMBER}]+[\\r\\n]*`,
  `[${SPACE}]*[\\r\\n]+`,
  `[${SPACE}]+(?![^${SPACE}])`,
  `[${SPACE}]+`,
].join("|");

export interface PreTokenizerKind {
  /** Text is cut around the matches of the first, the pieces around those of the next. */
  readonly patterns: readonly RegExp[];
  /** A word that is a token by itself is taken whole, without following the merges. */
  readonly ignoreMerges: boolean;
}

const [GPT_2, LLAMA_3] = [new RegExp(GPT_2_PATTERN, "gu"), new RegExp(LLAMA_3_PATTERN, "gu")];

/** How text is cut before byte-pair encoding, by the name in the GGUF key `tokenizer.ggml.pre`. */
export const PRE_TOKENIZERS: ReadonlyMap<string, PreTokenizerKind> = new Map([
  ["smollm", { patterns: [new RegExp(`[${DIGIT}]`, "gu"), GPT_2], ignoreMerges: false }],
  ["gpt-2", { patterns: [GPT_2], ignoreMerges: false }],
  ["llama-bpe", { patterns: [LLAMA_3], ignoreMerges: true }],
]);

/** The words of a text. */
export function wordsOf(text: string, patterns: readonly RegExp[]): readonly string[] {
  return patterns.reduce<readonly string[]>(
    (pieces, pattern) => pieces.flatMap((piece) => cutAround(piece, pattern)),
    [text],
  );
}

/** Matches and what lies between them, as they follow each other. */
function cutAround(text: string, pattern: RegExp): string[] {
  const pieces: string[] = [];
  let done = 0;
  pattern.lastIndex = 0;
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    if (match.index > done) pieces.push(text.slice(done, match.index));
    pieces.push(match[0]);
    done = pattern.lastIndex;
  }
  if (done < text.length) pieces.push(text.slice(done));
  return pieces;
}

function ignoringCase(letters: string): string {
  const folded: Readonly<Record<string, string>> = CHARACTER_CLASS.folded;
  return Array.from(letters, (letter) => `[${folded[letter] ?? letter}]`).join("");
}
