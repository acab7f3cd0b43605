import { readFile } from "node:fs/promises";
import type { Template } from "@huggingface/jinja";
import type { Tokenizer } from "@huggingface/tokenizers";
import { MooncakeKvError } from "../../errors.ts";
import { byteLevelAlphabet } from "./byte-level-alphabet.ts";
import { TOKEN_TYPE } from "./gguf-tokenizer.ts";
import type { TokenizerFile } from "./gguf-tokenizer.ts";
import { loadJinjaPackage, loadTokenizersPackage } from "./optional-packages.ts";
import { PRE_TOKENIZERS } from "./pre-tokenizers.ts";
import { TokenBytes } from "./token-bytes.ts";
import type { StreamingDecoder } from "./token-bytes.ts";
import type { ChatMessage, ModelTokenizer } from "./tokenizer.ts";

/** Loads the vocabulary file that a conversion wrote. Throws OPTIONAL_MISSING when a package is absent. */
export async function loadBpeTokenizer(path: string): Promise<ModelTokenizer> {
  const file = JSON.parse(await readFile(path, "utf8")) as TokenizerFile;
  const tokenizers = await loadTokenizersPackage();
  const tokenizer = new tokenizers.Tokenizer(definitionOf(file), {
    clean_up_tokenization_spaces: false,
  });
  const jinja = file.chatTemplate === null ? undefined : await loadJinjaPackage();
  const parse = (text: string): Template => {
    if (jinja === undefined) throw new Error("no chat template");
    return new jinja.Template(text);
  };
  return new BpeTokenizer(file, tokenizer, parse);
}

/** Byte-level byte-pair encoding with the vocabulary and chat template of a GGUF file. */
class BpeTokenizer implements ModelTokenizer {
  readonly vocabSize: number;
  readonly endTokenIds: readonly number[];
  private readonly file: TokenizerFile;
  private readonly tokenizer: Tokenizer;
  private readonly bytes: TokenBytes;
  private readonly parseTemplate: (text: string) => Template;
  private template: Template | undefined;

  constructor(
    file: TokenizerFile,
    tokenizer: Tokenizer,
    parseTemplate: (text: string) => Template,
  ) {
    this.file = file;
    this.tokenizer = tokenizer;
    this.parseTemplate = parseTemplate;
    this.vocabSize = file.vocabularySize;
    this.endTokenIds = file.endTokenIds;
    this.bytes = new TokenBytes(tokenBytesOf(file));
  }

  encode(text: string): Int32Array {
    const { ids } = this.tokenizer.encode(text, { add_special_tokens: false });
    const begin = this.file.beginTokenId;
    // A chat template usually writes the begin token itself; twice would be a prompt the model never saw.
    if (!this.file.addBeginToken || begin === null || ids[0] === begin) return Int32Array.from(ids);
    const tokenIds = new Int32Array(ids.length + 1);
    tokenIds[0] = begin;
    tokenIds.set(ids, 1);
    return tokenIds;
  }

  encodeChat(messages: readonly ChatMessage[]): Int32Array {
    return this.encode(this.renderChat(messages));
  }

  decode(tokenIds: ArrayLike<number>): string {
    return this.bytes.decode(tokenIds);
  }

  streamingDecoder(): StreamingDecoder {
    return this.bytes.streamingDecoder();
  }

  tokenBytes(tokenId: number): Uint8Array {
    return this.bytes.of(tokenId);
  }

  private renderChat(messages: readonly ChatMessage[]): string {
    const { chatTemplate, origin } = this.file;
    if (chatTemplate === null) {
      throw new MooncakeKvError({
        code: "UNSUPPORTED",
        field: origin,
        problem: "the model has no chat template",
        remedy: "Use plain completions, or give a model made for chat.",
      });
    }
    const textOf = (tokenId: number | null): string =>
      tokenId === null ? "" : (this.file.tokens[tokenId] ?? "");
    try {
      this.template ??= this.parseTemplate(chatTemplate);
      return this.template.render({
        messages: messages.map(({ role, content }) => ({ role, content })),
        bos_token: textOf(this.file.beginTokenId),
        eos_token: textOf(this.file.endTokenId),
        add_generation_prompt: true,
      });
    } catch (error) {
      throw new MooncakeKvError({
        code: "INVALID_VALUE",
        field: "messages",
        problem: `the model's chat template refuses them: ${error instanceof Error ? error.message : String(error)}`,
        remedy: "Use the roles and the order of roles that the model was made for.",
        cause: error,
      });
    }
  }
}

/** The same vocabulary in tokenizer.json's terms. */
function definitionOf(file: TokenizerFile): object {
  const kind = PRE_TOKENIZERS.get(file.preTokenizer);
  const addedTokens = file.tokens.flatMap((content, id) => {
    const type = file.tokenTypes[id];
    if (type !== TOKEN_TYPE.control && type !== TOKEN_TYPE.userDefined) return [];
    const special = type === TOKEN_TYPE.control;
    return [
      { id, content, special, single_word: false, lstrip: false, rstrip: false, normalized: false },
    ];
  });
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    normalizer: null,
    pre_tokenizer: kind?.definition ?? null,
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    added_tokens: addedTokens,
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: kind?.ignoreMerges ?? false,
      vocab: Object.fromEntries(file.tokens.map((token, id) => [token, id])),
      merges: file.merges.map((merge) => merge.split(" ")),
    },
  };
}

function tokenBytesOf(file: TokenizerFile): readonly Uint8Array[] {
  const alphabet = byteLevelAlphabet();
  const encoder = new TextEncoder();
  return file.tokens.map((token, id) => {
    const type = file.tokenTypes[id];
    if (type === TOKEN_TYPE.userDefined) return encoder.encode(token);
    if (type !== TOKEN_TYPE.normal) return new Uint8Array(0);
    // A character outside the alphabet cannot come from encoding; it is shown as itself.
    return Uint8Array.from(
      [...token].flatMap((character) => alphabet.get(character) ?? [...encoder.encode(character)]),
    );
  });
}
