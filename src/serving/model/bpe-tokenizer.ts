import { readFile } from "node:fs/promises";
import type { Template } from "@huggingface/jinja";
import { MooncakeKvError } from "../../errors.ts";
import type { TokenizerFile } from "./gguf-tokenizer.ts";
import { loadJinjaPackage } from "./optional-packages.ts";
import { TokenBytes } from "./token-bytes.ts";
import type { StreamingDecoder } from "./token-bytes.ts";
import { VocabularyEncoder } from "./vocabulary-encoder.ts";
import type { ChatMessage, ModelTokenizer } from "./tokenizer.ts";
import { tokenBytesOf } from "./vocabulary-bytes.ts";

/** Loads the vocabulary file that a conversion wrote. Throws OPTIONAL_MISSING when a package is absent. */
export async function loadBpeTokenizer(path: string): Promise<ModelTokenizer> {
  const file = JSON.parse(await readFile(path, "utf8")) as TokenizerFile;
  const jinja = file.chatTemplate === null ? undefined : await loadJinjaPackage();
  const parse = (text: string): Template => {
    if (jinja === undefined) throw new Error("no chat template");
    return new jinja.Template(text);
  };
  return new BpeTokenizer(file, parse);
}

/** Byte-pair encoding with the vocabulary and chat template of a GGUF file. */
class BpeTokenizer implements ModelTokenizer {
  readonly vocabSize: number;
  readonly endTokenIds: readonly number[];
  private readonly file: TokenizerFile;
  private readonly encoder: VocabularyEncoder;
  private readonly bytes: TokenBytes;
  private readonly parseTemplate: (text: string) => Template;
  private template: Template | undefined;

  constructor(file: TokenizerFile, parseTemplate: (text: string) => Template) {
    this.file = file;
    this.encoder = new VocabularyEncoder(file);
    this.parseTemplate = parseTemplate;
    this.vocabSize = file.vocabularySize;
    this.endTokenIds = file.endTokenIds;
    this.bytes = new TokenBytes(tokenBytesOf(file));
  }

  encode(text: string): Int32Array {
    const ids = this.encoder.encode(text);
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
