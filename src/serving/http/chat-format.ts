import type { ModelTokenizer } from "../model/tokenizer.ts";
import type { AnswerChoices, AnswerFormatKind } from "./answer-format.ts";
import type { AnswerRequest } from "./answer-request.ts";
import type { AnswerPiece, AnswerToken } from "./answer-text.ts";
import type { FinishReason } from "./generation.ts";
import { jsonLogprob, tokenText } from "./token-text.ts";

/** Bodies of /v1/chat/completions. */
export const CHAT_FORMAT: AnswerFormatKind = {
  idPrefix: "chatcmpl-",
  objects: { whole: "chat.completion", chunk: "chat.completion.chunk" },
  createChoices: (asked, tokenizer) => new ChatChoices(asked, tokenizer),
};

class ChatChoices implements AnswerChoices {
  readonly #asked: AnswerRequest;
  readonly #tokenizer: ModelTokenizer;

  constructor(asked: AnswerRequest, tokenizer: ModelTokenizer) {
    this.#asked = asked;
    this.#tokenizer = tokenizer;
  }

  whole({ text, tokens }: AnswerPiece, finishReason: FinishReason): object {
    return {
      index: 0,
      message: { role: "assistant", content: text, refusal: null },
      logprobs: this.#logprobs(tokens),
      finish_reason: finishReason,
    };
  }

  first(): object {
    return deltaChoice({ role: "assistant", content: "" }, null, null);
  }

  piece({ text, tokens }: AnswerPiece): object {
    return deltaChoice({ content: text }, this.#logprobs(tokens), null);
  }

  last(finishReason: FinishReason): object {
    return deltaChoice({}, null, finishReason);
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

function deltaChoice(
  delta: object,
  logprobs: object | null,
  finishReason: FinishReason | null,
): object {
  return { index: 0, delta, logprobs, finish_reason: finishReason };
}
