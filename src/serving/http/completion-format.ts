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
import type { FinishReason, GenerationResult } from "./generation.ts";
import { jsonLogprob, tokenText } from "./token-text.ts";

/** Bodies of /v1/completions. */
export const COMPLETION_FORMAT: AnswerFormatKind = {
  idPrefix: "cmpl-",
  create: (head, asked, tokenizer) => new CompletionFormat(head, asked, tokenizer),
};

class CompletionFormat implements AnswerFormat {
  readonly #asked: AnswerRequest;
  readonly #tokenizer: ModelTokenizer;
  readonly #head: object;

  constructor({ id, created, model }: AnswerHead, asked: AnswerRequest, tokenizer: ModelTokenizer) {
    this.#asked = asked;
    this.#tokenizer = tokenizer;
    this.#head = { id, object: "text_completion", created, model };
  }

  body(answer: AnswerPiece, result: GenerationResult): object {
    return {
      ...this.#head,
      choices: [this.#choice(answer, result.finishReason)],
      usage: result.usage,
      ...extensionField(this.#asked, result),
    };
  }

  firstChunk(): null {
    return null;
  }

  chunk(piece: AnswerPiece): object {
    return { ...this.#head, choices: [this.#choice(piece, null)], ...noUsageField(this.#asked) };
  }

  lastChunk(result: GenerationResult): object {
    const choice = { index: 0, text: "", logprobs: null, finish_reason: result.finishReason };
    return {
      ...this.#head,
      choices: [choice],
      ...noUsageField(this.#asked),
      ...extensionField(this.#asked, result),
    };
  }

  usageChunk(result: GenerationResult): object {
    return { ...this.#head, choices: [], usage: result.usage };
  }

  #choice({ text, tokens }: AnswerPiece, finishReason: FinishReason | null): object {
    const wanted = this.#asked.request.logprobs !== undefined;
    const logprobs = wanted ? this.#logprobs(tokens) : null;
    return { index: 0, text, logprobs, finish_reason: finishReason };
  }

  #logprobs(tokens: readonly AnswerToken[]): object {
    const name = (token: number): string => tokenText(this.#tokenizer, token);
    return {
      tokens: tokens.map(({ token }) => name(token)),
      token_logprobs: tokens.map(({ logprob }) => jsonLogprob(logprob)),
      // The chosen token is always among them, so there may be one more than was asked for.
      top_logprobs: tokens.map(({ token, logprob, top }) =>
        Object.fromEntries([
          ...top.map((entry) => [name(entry.token), jsonLogprob(entry.logprob)]),
          [name(token), jsonLogprob(logprob)],
        ]),
      ),
      text_offset: tokens.map(({ textOffset }) => textOffset),
    };
  }
}
