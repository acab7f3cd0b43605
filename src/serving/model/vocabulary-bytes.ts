import { byteLevelAlphabet } from "./byte-level-alphabet.ts";
import type { TokenizerFile } from "./gguf-tokenizer.ts";
import { TOKEN_TYPE } from "./sentencepiece-merges.ts";
import { BLANK } from "./vocabulary-encoder.ts";

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
