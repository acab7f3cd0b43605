import { byteLevelAlphabet } from "./byte-level-alphabet.ts";
import type { TokenizerFile } from "./gguf-tokenizer.ts";
import { PRE_TOKENIZERS } from "./pre-tokenizers.ts";
import { TOKEN_TYPE } from "./sentencepiece-merges.ts";

/** How SentencePiece writes a blank. */
const BLANK = "\u2581";

/** A vocabulary in tokenizer.json's terms. */
export function tokenizerDefinition(file: TokenizerFile): object {
  const kind = file.preTokenizer === null ? undefined : PRE_TOKENIZERS.get(file.preTokenizer);
  const sentencePiece = file.kind === "sentencepiece";
  const unknown = file.tokens.find((_, id) => file.tokenTypes[id] === TOKEN_TYPE.unknown);
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    normalizer: sentencePiece ? sentencePieceNormalizer(file.addSpacePrefix) : null,
    pre_tokenizer: kind?.definition ?? null,
    post_processor: null,
    // Decoding goes by the tokens' bytes; see tokenBytesOf.
    decoder: null,
    added_tokens: addedTokens(file),
    model: {
      type: "BPE",
      dropout: null,
      unk_token: sentencePiece ? (unknown ?? null) : null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: sentencePiece,
      byte_fallback: sentencePiece,
      ignore_merges: kind?.ignoreMerges ?? false,
      vocab: Object.fromEntries(file.tokens.map((token, id) => [token, id])),
      merges: file.merges.map((merge) => merge.split(" ")),
    },
  };
}

/**
 * Bytes of every token. SentencePiece's blanks are kept as they are, the one before the first word too: an answer continues a
 * prompt, where that blank belongs.
 */
export function tokenBytesOf(file: TokenizerFile): readonly Uint8Array[] {
  const alphabet = byteLevelAlphabet();
  const encoder = new TextEncoder();
  return file.tokens.map((token, id) => {
    const type = file.tokenTypes[id];
    if (type === TOKEN_TYPE.userDefined) return encoder.encode(token);
    if (type === TOKEN_TYPE.byte) return Uint8Array.of(Number.parseInt(token.slice(3, 5), 16));
    if (type !== TOKEN_TYPE.normal) return new Uint8Array(0);
    if (file.kind === "sentencepiece") return encoder.encode(token.replaceAll(BLANK, " "));
    // A character outside the alphabet cannot come from encoding; it is shown as itself.
    return Uint8Array.from(
      Array.from(token).flatMap(
        (character) => alphabet.get(character) ?? [...encoder.encode(character)],
      ),
    );
  });
}

function sentencePieceNormalizer(addSpacePrefix: boolean): object {
  const replace = { type: "Replace", pattern: { String: " " }, content: BLANK };
  if (!addSpacePrefix) return replace;
  return { type: "Sequence", normalizers: [{ type: "Prepend", prepend: BLANK }, replace] };
}

function addedTokens(file: TokenizerFile): readonly object[] {
  return file.tokens.flatMap((content, id) => {
    const type = file.tokenTypes[id];
    if (type !== TOKEN_TYPE.control && type !== TOKEN_TYPE.userDefined) return [];
    const special = type === TOKEN_TYPE.control;
    return [
      { id, content, special, single_word: false, lstrip: false, rstrip: false, normalized: false },
    ];
  });
}
