import type { ModelTokenizer } from "../model/tokenizer.ts";
import {
  extensionField,
  noUsageField,
  type AnswerFormat,
  type AnswerFormatKind,
  type AnswerHead,
} from "./answer-format.ts";
import type { AnswerRequest } from "./answer-request.ts";
import type { AnswerPiece, AnswerToken } from "./answer-text.ts";
import type { GenerationResult } from "./generation.ts";
import { jsonLogprob, tokenText } from "./token-text.ts";

/** Bodies of /v1/chat/completions. */
export const CHAT_FORMAT: AnswerFormatKind = {
  idPrefix: "chatcmpl-",
  create: (head, asked, tokenizer) => new ChatFormat(head, asked, tokenizer),
};

class ChatFormat implements AnswerFormat {
  readonly #head: AnswerHead;
  readonly #asked: AnswerRequest;
  readonly #tokenizer: ModelTokenizer;

  constructor(head: AnswerHead, asked: AnswerRequest, tokenizer: ModelTokenizer) {
    this.#head = head;
    this.#asked = asked;
    this.#tokenizer = tokenizer;
  }

  body({ text, tokens }: AnswerPiece, result: GenerationResult): object {
    const { id, created, model } = this.#head;
    const choice = {
      index: 0,
      message: { role: "assistant", content: text, refusal: null },
      logprobs: this.#logprobs(tokens),
      finish_reason: result.finishReason,
    };
    return {
      id,
      object: "chat.completion",
      created,
      model,
      choices: [choice],
      usage: result.usage,
      ...extensionField(this.#asked, result),
    };
  }

  firstChunk(): object {
    return this.#chunk({ role: "assistant", content: "" }, null, null);
  }

  chunk({ text, tokens }: AnswerPiece): object {
    return this.#chunk({ content: text }, this.#logprobs(tokens), null);
  }

  lastChunk(result: GenerationResult): object {
    return {
      ...this.#chunk({}, null, result.finishReason),
      ...extensionField(this.#asked, result),
    };
  }

  usageChunk(result: GenerationResult): object {
    return { ...this.#chunkHead(), choices: [], usage: result.usage };
  }

  #chunkHead(): object {
    const { id, created, model } = this.#head;
    return { id, object: "chat.completion.chunk", created, model };
  }

  #chunk(delta: object, logprobs: object | null, finishReason: string | null): object {
    return {
      ...this.#chunkHead(),
      choices: [{ index: 0, delta, logprobs, finish_reason: finishReason }],
      ...noUsageField(this.#asked),
    };
  }

  #logprobs(tokens: readonly AnswerToken[]): object | null {
    if (this.#asked.request.logprobs === undefined) return null;
    const content = tokens.map(({ token, logprob, top }) => ({
      ...this.#entry(token, logprob),
      top_logprobs: top.map((entry) => this.#entry(entry.token, entry.logprob)),
    }));
    return { content, refusal: null };
  }

  #entry(token: number, logprob: number): object {
    return {
      token: tokenText(this.#tokenizer, token),
      logprob: jsonLogprob(logprob),
      bytes: Array.from(this.#tokenizer.tokenBytes(token)),
    };
  }
}
