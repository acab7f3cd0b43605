/** How text is cut before byte-pair encoding, in tokenizer.json's terms. */
const byteLevel = (useRegex: boolean): object => ({
  type: "ByteLevel",
  add_prefix_space: false,
  trim_offsets: true,
  use_regex: useRegex,
});

/** Words with their leading blank, contractions, up to three digits, runs of signs and of line ends. */
const LLAMA_3_PATTERN =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

export interface PreTokenizerKind {
  readonly definition: object;
  /** A word that is a token by itself is taken whole, without following the merges. */
  readonly ignoreMerges: boolean;
}

/** By the name in the GGUF key `tokenizer.ggml.pre`. */
export const PRE_TOKENIZERS: ReadonlyMap<string, PreTokenizerKind> = new Map([
  [
    "smollm",
    {
      definition: {
        type: "Sequence",
        pretokenizers: [{ type: "Digits", individual_digits: true }, byteLevel(true)],
      },
      ignoreMerges: false,
    },
  ],
  ["gpt-2", { definition: byteLevel(true), ignoreMerges: false }],
  [
    "llama-bpe",
    {
      definition: {
        type: "Sequence",
        pretokenizers: [
          {
            type: "Split",
            pattern: { Regex: LLAMA_3_PATTERN },
            behavior: "Isolated",
            invert: false,
          },
          byteLevel(false),
        ],
      },
      ignoreMerges: true,
    },
  ],
]);
