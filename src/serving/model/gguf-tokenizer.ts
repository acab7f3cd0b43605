import { basename } from "node:path";
import { chatPromptOf } from "./bpe-tokenizer.ts";
import { MERGES_MAX, mergeParts } from "./byte-pair-merges.ts";
import { modelInvalid, modelUnsupported } from "./gguf-errors.ts";
import type { GgufFile } from "./gguf-reader.ts";
import type { GgufValue } from "./gguf-types.ts";
import { PRE_TOKENIZERS } from "./pre-tokenizers.ts";
import { TOKEN_TYPE, sentencePieceMerges } from "./sentencepiece-merges.ts";
import { specialTokensOf } from "./special-tokens.ts";

/** What a tokenizer needs, taken out of a GGUF file and kept as JSON beside the converted graph. */
export interface TokenizerFile {
  /** The name of the file that it came from, for messages. */
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
  readonly addEndToken: boolean;
  /** SentencePiece: a blank is put before the text. */
  readonly addSpacePrefix: boolean;
  readonly chatTemplate: string | null;
}

const OTHER_TOKENIZER =
  "Give a model with a byte-level BPE or SentencePiece BPE vocabulary (SmolLM, Llama, Mistral, GPT-2).";

/** Throws UNSUPPORTED for another kind of vocabulary, MODEL_INVALID for an incomplete one. */
export function tokenizerFileOf(file: GgufFile, vocabularySize: number): TokenizerFile {
  const kind = kindOf(file);
  const preTokenizer = kind === "byte-level" ? preTokenizerOf(file) : null;
  const tokens = listOf(file, "tokenizer.ggml.tokens", isText);
  const fileTypes = tokenTypesOf(file, tokens.length);
  if (tokens.length > vocabularySize || fileTypes.length !== tokens.length) {
    throw modelInvalid(
      file.path,
      "the vocabulary does not fit the embedding",
      OTHER_TOKENIZER,
      tokens.length,
    );
  }
  const declared = (name: string): number | null => declaredIdOf(file, name, tokens.length, kind);
  const special = specialTokensOf(tokens, fileTypes, declared);
  const template = file.metadata.get("tokenizer.chat_template");
  const made: TokenizerFile = {
    origin: basename(file.path),
    kind,
    preTokenizer,
    tokens,
    tokenTypes: special.tokenTypes,
    merges:
      kind === "byte-level"
        ? listOf(file, "tokenizer.ggml.merges", isText)
        : sentencePieceMerges(tokens, listOf(file, "tokenizer.ggml.scores", isNumber)),
    vocabularySize,
    beginTokenId: declared("bos"),
    endTokenId: declared("eos"),
    endTokenIds: special.endTokenIds,
    addBeginToken: flagOf(
      file,
      "tokenizer.ggml.add_bos_token",
      kind === "sentencepiece" || preTokenizer === "llama-bpe",
    ),
    addEndToken: flagOf(file, "tokenizer.ggml.add_eos_token", false),
    addSpacePrefix:
      kind === "sentencepiece" && flagOf(file, "tokenizer.ggml.add_space_prefix", true),
    chatTemplate: typeof template === "string" ? template : null,
  };
  checkMerges(made, file.path);
  // A template that cannot be used is refused before the long part of a conversion.
  chatPromptOf(made, () => 0);
  return made;
}

/** SentencePiece vocabularies whose file names none have these, as in llama.cpp. */
const SENTENCE_PIECE_IDS: Readonly<Record<string, number>> = { bos: 1, eos: 2, unknown: 0 };

function declaredIdOf(
  file: GgufFile,
  name: string,
  tokenCount: number,
  kind: TokenizerFile["kind"],
): number | null {
  const declared = tokenIdOf(file, `tokenizer.ggml.${name}_token_id`, tokenCount);
  if (declared !== null || kind !== "sentencepiece") return declared;
  const usual = SENTENCE_PIECE_IDS[name];
  return usual !== undefined && usual < tokenCount ? usual : null;
}

/** A merge of tokens outside the vocabulary is a damaged file: the original does not load it either. */
function checkMerges(file: TokenizerFile, path: string): void {
  const known = new Set(file.tokens);
  if (file.merges.length > MERGES_MAX) {
    throw modelInvalid(path, "it has too many merges", OTHER_TOKENIZER, file.merges.length);
  }
  for (const merge of file.merges) {
    const [left, right] = mergeParts(merge);
    if (known.has(left) && known.has(right) && known.has(left + right)) continue;
    throw modelInvalid(path, "a merge names tokens outside the vocabulary", OTHER_TOKENIZER, merge);
  }
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

/** What the file declares, else what its kind of vocabulary usually means. */
function flagOf(file: GgufFile, key: string, otherwise: boolean): boolean {
  const declared = file.metadata.get(key);
  return typeof declared === "boolean" ? declared : otherwise;
}

function tokenIdOf(file: GgufFile, key: string, tokenCount: number): number | null {
  const value = file.metadata.get(key);
  return typeof value === "number" && value >= 0 && value < tokenCount ? value : null;
}

/** A file without types has normal tokens only. */
function tokenTypesOf(file: GgufFile, tokenCount: number): readonly number[] {
  if (file.metadata.has("tokenizer.ggml.token_type")) {
    return listOf(file, "tokenizer.ggml.token_type", isNumber);
  }
  return Array.from({ length: tokenCount }, () => TOKEN_TYPE.normal);
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
