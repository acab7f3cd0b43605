import { TOKEN_TYPE } from "./sentencepiece-merges.ts";

/** Tokens that end an answer by their text, whatever a file declares: llama.cpp's list. */
const END_TEXTS: ReadonlySet<string> = new Set([
  "<|eot_id|>",
  "<|im_end|>",
  "<|end|>",
  "<|return|>",
  "<|call|>",
  "<|flush|>",
  "<|calls|>",
  "<end_of_turn>",
  "<|endoftext|>",
  "</s>",
  "<|eom_id|>",
  "<EOT>",
  "_<EOT>",
  "[EOT]",
  "[EOS]",
  "<|end_of_text|>",
  "<end_of_utterance>",
  "<eos>",
  "<turn|>",
  "<|tool_response>",
]);

/** Tokens for filling in code: those of the last three groups end an answer too, the first of a group that there is. */
const FILL_IN_GROUPS: readonly {
  readonly ends: boolean;
  readonly key: string;
  readonly texts: readonly string[];
}[] = [
  {
    ends: false,
    key: "fim_pre",
    texts: [
      "<|fim_prefix|>",
      "<fim-prefix>",
      "<fim_prefix>",
      "<PRE>",
      "<|code_prefix|>",
      "<|prefix|>",
    ],
  },
  {
    ends: false,
    key: "fim_suf",
    texts: [
      "<|fim_suffix|>",
      "<fim-suffix>",
      "<fim_suffix>",
      "<SUF>",
      "<|code_suffix|>",
      "<|suffix|>",
    ],
  },
  {
    ends: false,
    key: "fim_mid",
    texts: [
      "<|fim_middle|>",
      "<fim-middle>",
      "<fim_middle>",
      "<MID>",
      "<|code_middle|>",
      "<|middle|>",
    ],
  },
  {
    ends: true,
    key: "fim_pad",
    texts: ["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"],
  },
  {
    ends: true,
    key: "fim_rep",
    texts: ["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"],
  },
  { ends: true, key: "fim_sep", texts: ["<|file_sep|>"] },
];

/** Tokens of one model's channels, always written out. */
const SHOWN_TEXTS: ReadonlySet<string> = new Set([
  "<|channel|>",
  "<|message|>",
  "<|start|>",
  "<|constrain|>",
]);

export interface SpecialTokens {
  readonly endTokenIds: readonly number[];
  /** The file's types, where a token's text says more than they do. */
  readonly tokenTypes: readonly number[];
}

/**
 * End tokens and token types as llama.cpp takes them. `declared`: an id by the name of its key, such as `eos` or `fim_pad`; null
 * where the file has none.
 */
export function specialTokensOf(
  tokens: readonly string[],
  fileTypes: readonly number[],
  declared: (name: string) => number | null,
): SpecialTokens {
  const tokenTypes = [...fileTypes];
  const ends = new Set<number>();
  const ids = new Map(tokens.map((token, id) => [token, id]));
  for (const { ends: isEnd, key, texts } of FILL_IN_GROUPS) {
    const written = texts.map((text) => ids.get(text)).find((id) => id !== undefined);
    const id = declared(key) ?? written;
    if (id === undefined) continue;
    if (declared(key) === null) tokenTypes[id] = TOKEN_TYPE.control;
    if (isEnd) ends.add(id);
  }
  for (const [token, id] of ids) {
    if (END_TEXTS.has(token)) {
      ends.add(id);
      tokenTypes[id] = TOKEN_TYPE.control;
    } else if (SHOWN_TEXTS.has(token)) tokenTypes[id] = TOKEN_TYPE.userDefined;
  }
  for (const name of ["eos", "eot", "eom"]) {
    const id = declared(name);
    if (id !== null) ends.add(id);
  }
  const without = (text: string, type: number): void => {
    const id = ids.get(text);
    if (id === undefined) return;
    ends.delete(id);
    tokenTypes[id] = type;
  };
  const has = (...texts: readonly string[]): boolean => texts.some((text) => ids.has(text));
  // There an inner end, not the end of an answer.
  if (has("<|call|>", "<|calls|>") && has("<|return|>", "<|flush|>")) {
    without("<|end|>", TOKEN_TYPE.userDefined);
  }
  if (has("<|tool_response>")) without("</s>", TOKEN_TYPE.normal);
  return { endTokenIds: [...ends].toSorted((one, other) => one - other), tokenTypes };
}
