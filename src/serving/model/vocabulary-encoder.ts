import { byteLevelAlphabet } from "./byte-level-alphabet.ts";
import { BytePairMerges } from "./byte-pair-merges.ts";
import type { TokenizerFile } from "./gguf-tokenizer.ts";
import { PRE_TOKENIZERS, wordsOf } from "./pre-tokenizers.ts";
import { TOKEN_TYPE } from "./sentencepiece-merges.ts";
import { WrittenOutTokens } from "./written-out-tokens.ts";

/** How SentencePiece writes a blank. */
export const BLANK = "\u2581";

/** Words whose ids are kept, and the longest of them in UTF-16 units. */
const CACHED_WORDS_MAX = 10_000;
const CACHED_UNITS_MAX = 64;

/** Types of tokens that stand for themselves where a text writes them out, as llama.cpp and vLLM take them. */
const WRITTEN_OUT: ReadonlySet<number> = new Set([
  TOKEN_TYPE.unknown,
  TOKEN_TYPE.control,
  TOKEN_TYPE.userDefined,
]);

/**
 * Text to token ids, equal to what Hugging Face's `tokenizers` makes with the vocabulary's tokenizer.json. Tokens that the text
 * writes out are taken first, then words are cut, then each word's symbols are merged. Belongs to one thread.
 */
export class VocabularyEncoder {
  readonly #file: TokenizerFile;
  readonly #ids: ReadonlyMap<string, number>;
  readonly #merges: BytePairMerges;
  readonly #writtenOut: WrittenOutTokens;
  readonly #patterns: readonly RegExp[];
  readonly #ignoreMerges: boolean;
  /** Byte-level: the character of each byte, and its token, -1 when the vocabulary has none. */
  readonly #byteCharacters: readonly string[];
  readonly #byteTokens: Int32Array;
  readonly #unknown: number;
  readonly #words = new Map<string, Int32Array>();
  readonly #utf8 = new TextEncoder();
  #symbols = new Int32Array(64);

  constructor(file: TokenizerFile) {
    this.#file = file;
    this.#ids = new Map(file.tokens.map((token, id) => [token, id]));
    this.#merges = new BytePairMerges(this.#ids, file.tokens.length, file.merges);
    this.#writtenOut = new WrittenOutTokens(
      [...this.#ids].filter(([, id]) => WRITTEN_OUT.has(file.tokenTypes[id] ?? TOKEN_TYPE.normal)),
    );
    const kind = file.preTokenizer === null ? undefined : PRE_TOKENIZERS.get(file.preTokenizer);
    this.#patterns = kind?.patterns ?? [];
    this.#ignoreMerges = kind?.ignoreMerges ?? false;
    this.#byteCharacters = [...byteLevelAlphabet()]
      .toSorted(([, one], [, other]) => one - other)
      .map(([character]) => character);
    const byteNames =
      file.kind === "byte-level" ? this.#byteCharacters : this.#byteCharacters.map(byteFallback);
    this.#byteTokens = Int32Array.from(byteNames, (name) => this.#ids.get(name) ?? -1);
    this.#unknown = file.tokens.findIndex((_, id) => file.tokenTypes[id] === TOKEN_TYPE.unknown);
  }

  encode(text: string): number[] {
    // What UTF-8 cannot write is written as U+FFFD.
    const whole = text.replaceAll(/\p{Surrogate}/gu, "\ufffd");
    const ids: number[] = [];
    let done = 0;
    for (let at = this.#writtenOut.next(whole, 0); at !== null;) {
      this.#encodePlain(whole.slice(done, at.start), ids);
      ids.push(at.id);
      done = at.end;
      at = this.#writtenOut.next(whole, done);
    }
    this.#encodePlain(done === 0 ? whole : whole.slice(done), ids);
    return ids;
  }

  #encodePlain(text: string, ids: number[]): void {
    if (text === "") return;
    if (this.#file.kind === "sentencepiece") {
      const prefix = this.#file.addSpacePrefix ? BLANK : "";
      this.#append(this.#encodeWord(prefix + text.replaceAll(" ", BLANK)), ids);
      return;
    }
    for (const word of wordsOf(text, this.#patterns)) this.#append(this.#cachedWord(word), ids);
  }

  #append(word: Int32Array, ids: number[]): void {
    for (let index = 0; index < word.length; index++) ids.push(word[index]!);
  }

  #cachedWord(word: string): Int32Array {
    const known = this.#words.get(word);
    if (known !== undefined) return known;
    const ids = this.#encodeWord(word);
    if (word.length <= CACHED_UNITS_MAX) {
      if (this.#words.size >= CACHED_WORDS_MAX) this.#words.clear();
      this.#words.set(word, ids);
    }
    return ids;
  }

  #encodeWord(word: string): Int32Array {
    if (this.#file.kind === "sentencepiece") return this.#merged(this.#characterSymbols(word));
    const bytes = this.#utf8.encode(word);
    if (this.#ignoreMerges) {
      const id = this.#ids.get(Array.from(bytes, (byte) => this.#byteCharacters[byte]!).join(""));
      if (id !== undefined) return Int32Array.of(id);
    }
    this.#reserve(bytes.length);
    let count = 0;
    // A byte without token vanishes before the merging, so that its neighbours may join.
    for (const byte of bytes) {
      const id = this.#byteTokens[byte]!;
      if (id >= 0) this.#symbols[count++] = id;
    }
    return this.#merged(count);
  }

  /** Characters outside the vocabulary become their bytes, or the unknown token for as many as follow each other. */
  #characterSymbols(word: string): number {
    this.#reserve(word.length * 3);
    let count = 0;
    let unknown = false;
    const endUnknown = (): void => {
      if (unknown) this.#symbols[count++] = this.#unknown;
      unknown = false;
    };
    for (const character of word) {
      const id = this.#ids.get(character);
      if (id !== undefined) {
        endUnknown();
        this.#symbols[count++] = id;
        continue;
      }
      const bytes = this.#utf8.encode(character);
      if (bytes.every((byte) => this.#byteTokens[byte]! >= 0)) {
        for (const byte of bytes) this.#symbols[count++] = this.#byteTokens[byte]!;
      } else unknown = this.#unknown >= 0;
    }
    endUnknown();
    return count;
  }

  #merged(count: number): Int32Array {
    return this.#symbols.slice(0, this.#merges.merge(this.#symbols, count));
  }

  #reserve(count: number): void {
    if (this.#symbols.length < count) this.#symbols = new Int32Array(count * 2);
  }
}

function byteFallback(_character: string, byte: number): string {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
}
