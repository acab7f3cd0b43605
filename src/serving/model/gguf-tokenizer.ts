import { modelInvalid, modelUnsupported } from "./gguf-errors.ts";
import type { GgufFile } from "./gguf-reader.ts";
import type { GgufValue } from "./gguf-types.ts";
import { PRE_TOKENIZERS } from "./pre-tokenizers.ts";

/** What a tokenizer needs, taken out of a GGUF file and kept as JSON beside the converted graph. */
export interface TokenizerFile {
  /** Where it came from, for messages. */
  readonly origin: string;
  /** A key of PRE_TOKENIZERS. */
  readonly preTokenizer: string;
  readonly tokens: readonly string[];
  /** ggml's token types: 1 normal, 3 control, 4 user-defined, 5 unused. */
  readonly tokenTypes: readonly number[];
  /** Pairs joined by one blank, best first. */
  readonly merges: readonly string[];
  readonly vocabularySize: number;
  readonly beginTokenId: number | null;
  readonly endTokenId: number | null;
  readonly endTokenIds: readonly number[];
  readonly addBeginToken: boolean;
  readonly chatTemplate: string | null;
}

export const TOKEN_TYPE = { normal: 1, control: 3, userDefined: 4 } as const;

/** Control tokens that end a turn under these names in the known chat formats, whatever the file declares. */
const END_TOKEN_TEXTS: ReadonlySet<string> = new Set([
  "<|im_end|>",
  "<|eot_id|>",
  "<|end_of_text|>",
  "<|endoftext|>",
]);

const GIVE_BPE =
  "Give a model with a byte-level BPE vocabulary, for example of the SmolLM, Llama 3 or GPT-2 kind.";

/** Throws UNSUPPORTED for another kind of vocabulary, MODEL_INVALID for an incomplete one. */
export function tokenizerFileOf(file: GgufFile, vocabularySize: number): TokenizerFile {
  const kind = file.metadata.get("tokenizer.ggml.model");
  if (kind === undefined) throw modelInvalid(file.path, "the file has no tokenizer", GIVE_BPE);
  if (kind !== "gpt2")
    throw modelUnsupported(file.path, "this kind of tokenizer is not built", GIVE_BPE, kind);
  const preTokenizer = String(file.metadata.get("tokenizer.ggml.pre") ?? "missing");
  if (!PRE_TOKENIZERS.has(preTokenizer)) {
    const remedy = `Give a model with one of the pre-tokenizers ${[...PRE_TOKENIZERS.keys()].join(", ")}.`;
    throw modelUnsupported(file.path, "this pre-tokenizer is not built", remedy, preTokenizer);
  }
  const tokens = listOf(file, "tokenizer.ggml.tokens", isText);
  const tokenTypes = listOf(file, "tokenizer.ggml.token_type", isNumber);
  if (tokens.length > vocabularySize || tokenTypes.length !== tokens.length) {
    throw modelInvalid(
      file.path,
      "the vocabulary does not fit the embedding",
      GIVE_BPE,
      tokens.length,
    );
  }
  const endTokenId = tokenIdOf(file, "tokenizer.ggml.eos_token_id", tokens.length);
  const turnEnd = tokenIdOf(file, "tokenizer.ggml.eot_token_id", tokens.length);
  const endTokenIds = new Set<number>();
  if (endTokenId !== null) endTokenIds.add(endTokenId);
  if (turnEnd !== null) endTokenIds.add(turnEnd);
  tokens.forEach((text, id) => {
    if (tokenTypes[id] === TOKEN_TYPE.control && END_TOKEN_TEXTS.has(text)) endTokenIds.add(id);
  });
  const template = file.metadata.get("tokenizer.chat_template");
  return {
    origin: file.path,
    preTokenizer,
    tokens,
    tokenTypes,
    merges: listOf(file, "tokenizer.ggml.merges", isText),
    vocabularySize,
    beginTokenId: tokenIdOf(file, "tokenizer.ggml.bos_token_id", tokens.length),
    endTokenId,
    endTokenIds: [...endTokenIds],
    addBeginToken: addsBeginToken(file, preTokenizer),
    chatTemplate: typeof template === "string" ? template : null,
  };
}

/** Files that do not say it: the Llama 3 kind begins every text with its begin token, the GPT-2 kinds do not. */
function addsBeginToken(file: GgufFile, preTokenizer: string): boolean {
  const declared = file.metadata.get("tokenizer.ggml.add_bos_token");
  return typeof declared === "boolean" ? declared : preTokenizer === "llama-bpe";
}

function tokenIdOf(file: GgufFile, key: string, tokenCount: number): number | null {
  const value = file.metadata.get(key);
  return typeof value === "number" && value >= 0 && value < tokenCount ? value : null;
}

function listOf<Item>(
  file: GgufFile,
  key: string,
  accepts: (value: GgufValue) => value is GgufValue & Item,
): readonly Item[] {
  const value = file.metadata.get(key);
  if (Array.isArray(value) && value.every((item: GgufValue) => accepts(item))) return value;
  throw modelInvalid(file.path, `the metadata key ${key} is missing or of a wrong type`, GIVE_BPE);
}

function isText(value: GgufValue): value is string {
  return typeof value === "string";
}

function isNumber(value: GgufValue): value is number {
  return typeof value === "number";
}
