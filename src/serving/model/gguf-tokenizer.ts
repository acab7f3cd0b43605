import { modelInvalid, modelUnsupported } from "./gguf-errors.ts";
import type { GgufFile } from "./gguf-reader.ts";
import type { GgufValue } from "./gguf-types.ts";
import { PRE_TOKENIZERS } from "./pre-tokenizers.ts";
import { TOKEN_TYPE, sentencePieceMerges } from "./sentencepiece-merges.ts";

/** What a tokenizer needs, taken out of a GGUF file and kept as JSON beside the converted graph. */
export interface TokenizerFile {
  /** Where it came from, for messages. */
  readonly origin: string;
  /** Byte-level BPE (the GPT-2 and Llama 3 kinds) or SentencePiece BPE with byte fallback (the Llama 2 kind). */
  readonly kind: "byte-level" | "sentencepiece";
  /** A key of PRE_TOKENIZERS; null for SentencePiece, which cuts nothing beforehand. */
  readonly preTokenizer: string | null;
  readonly tokens: readonly string[];
  /** ggml's token types, see TOKEN_TYPE. */
  readonly tokenTypes: readonly number[];
  /** Pairs joined by one blank, best first. */
  readonly merges: readonly string[];
  readonly vocabularySize: number;
  readonly beginTokenId: number | null;
  readonly endTokenId: number | null;
  readonly endTokenIds: readonly number[];
  readonly addBeginToken: boolean;
  /** SentencePiece: a blank is put before the text. */
  readonly addSpacePrefix: boolean;
  readonly chatTemplate: string | null;
}

/** Control tokens that end a turn under these names in the known chat formats, whatever the file declares. */
const END_TOKEN_TEXTS: ReadonlySet<string> = new Set([
  "<|im_end|>",
  "<|eot_id|>",
  "<|end_of_text|>",
  "<|endoftext|>",
]);

const OTHER_TOKENIZER =
  "Give a model with a byte-level BPE or SentencePiece BPE vocabulary (SmolLM, Llama, Mistral, GPT-2).";

/** Throws UNSUPPORTED for another kind of vocabulary, MODEL_INVALID for an incomplete one. */
export function tokenizerFileOf(file: GgufFile, vocabularySize: number): TokenizerFile {
  const kind = kindOf(file);
  const preTokenizer = kind === "byte-level" ? preTokenizerOf(file) : null;
  const tokens = listOf(file, "tokenizer.ggml.tokens", isText);
  const tokenTypes = listOf(file, "tokenizer.ggml.token_type", isNumber);
  if (tokens.length > vocabularySize || tokenTypes.length !== tokens.length) {
    throw modelInvalid(
      file.path,
      "the vocabulary does not fit the embedding",
      OTHER_TOKENIZER,
      tokens.length,
    );
  }
  const endTokenId = tokenIdOf(file, "tokenizer.ggml.eos_token_id", tokens.length);
  const template = file.metadata.get("tokenizer.chat_template");
  return {
    origin: file.path,
    kind,
    preTokenizer,
    tokens,
    tokenTypes,
    merges:
      kind === "byte-level"
        ? listOf(file, "tokenizer.ggml.merges", isText)
        : sentencePieceMerges(tokens, listOf(file, "tokenizer.ggml.scores", isNumber)),
    vocabularySize,
    beginTokenId: tokenIdOf(file, "tokenizer.ggml.bos_token_id", tokens.length),
    endTokenId,
    endTokenIds: endTokenIdsOf(file, tokens, tokenTypes, endTokenId),
    addBeginToken: flagOf(
      file,
      "tokenizer.ggml.add_bos_token",
      kind === "sentencepiece" || preTokenizer === "llama-bpe",
    ),
    addSpacePrefix:
      kind === "sentencepiece" && flagOf(file, "tokenizer.ggml.add_space_prefix", true),
    chatTemplate: typeof template === "string" ? template : null,
  };
}

function kindOf(file: GgufFile): TokenizerFile["kind"] {
  const kind = file.metadata.get("tokenizer.ggml.model");
  if (kind === "gpt2") return "byte-level";
  if (kind === "llama") return "sentencepiece";
  if (kind === undefined)
    throw modelInvalid(file.path, "the file has no tokenizer", OTHER_TOKENIZER);
  throw modelUnsupported(file.path, "this kind of tokenizer is not built", OTHER_TOKENIZER, kind);
}

function preTokenizerOf(file: GgufFile): string {
  const name = String(file.metadata.get("tokenizer.ggml.pre") ?? "missing");
  if (PRE_TOKENIZERS.has(name)) return name;
  const remedy = `Give a model with one of the pre-tokenizers ${[...PRE_TOKENIZERS.keys()].join(", ")}.`;
  throw modelUnsupported(file.path, "this pre-tokenizer is not built", remedy, name);
}

function endTokenIdsOf(
  file: GgufFile,
  tokens: readonly string[],
  tokenTypes: readonly number[],
  endTokenId: number | null,
): readonly number[] {
  const turnEnd = tokenIdOf(file, "tokenizer.ggml.eot_token_id", tokens.length);
  const endTokenIds = new Set<number>();
  if (endTokenId !== null) endTokenIds.add(endTokenId);
  if (turnEnd !== null) endTokenIds.add(turnEnd);
  tokens.forEach((text, id) => {
    if (tokenTypes[id] === TOKEN_TYPE.control && END_TOKEN_TEXTS.has(text)) endTokenIds.add(id);
  });
  return [...endTokenIds];
}

/** What the file declares, else what its kind of vocabulary usually means. */
function flagOf(file: GgufFile, key: string, otherwise: boolean): boolean {
  const declared = file.metadata.get(key);
  return typeof declared === "boolean" ? declared : otherwise;
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
  throw modelInvalid(
    file.path,
    `the metadata key ${key} is missing or of a wrong type`,
    OTHER_TOKENIZER,
  );
}

function isText(value: GgufValue): value is string {
  return typeof value === "string";
}

function isNumber(value: GgufValue): value is number {
  return typeof value === "number";
}
