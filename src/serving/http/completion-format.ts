import type { ModelTokenizer } from "../model/tokenizer.ts";
import type { AnswerChoices, AnswerFormatKind } from "./answer-format.ts";
import type { AnswerRequest } from "./answer-request.ts";
import type { AnswerPiece, AnswerToken } from "./answer-text.ts";
import type { FinishReason } from "./generation.ts";
import { jsonLogprob, tokenText } from "./token-text.ts";

/** Bodies of /v1/completions. */
export const COMPLETION_FORMAT: AnswerFormatKind = {
  idPrefix: "cmpl-",
  objects: { whole: "text_completion", chunk: "text_completion" },
  createChoices: (asked, tokenizer) => new CompletionChoices(asked, tokenizer),
};

class CompletionChoices implements AnswerChoices {
  readonly #asked: AnswerRequest;
  readonly #tokenizer: ModelTokenizer;

  constructor(asked: AnswerRequest, tokenizer: ModelTokenizer) {
    this.#asked = asked;
    this.#tokenizer = tokenizer;
  }

  whole(answer: AnswerPiece, finishReason: FinishReason): object {
    return this.#choice(answer, finishReason);
  }

  first(): null {
    return null;
  }

  piece(piece: AnswerPiece): object {
    return this.#choice(piece, null);
  }

  last(finishReason: FinishReason): object {
    return { index: 0, text: "", logprobs: null, finish_reason: finishReason };
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
