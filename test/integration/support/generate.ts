import type { Application } from "../../../src/serving/application.ts";
import type { FrontEndRequest, RequestSummary } from "../../../src/serving/front-end-types.ts";

/** A whole answer with the hash of the raw logits behind every token ("" where a dead scheduler announced none). */
export interface Answer {
  readonly tokens: readonly number[];
  readonly hashes: readonly string[];
  readonly text: string;
  readonly summary: RequestSummary;
}

export interface Generating {
  readonly answer: Promise<Answer>;
  abort(): void;
}

let requests = 0;

/** Starts a greedy request of 12 tokens at the front end; `onToken` sees each index as it comes. */
export function startGenerating(
  application: Application,
  promptTokens: Int32Array,
  request: Partial<FrontEndRequest> = {},
  onToken: (index: number) => void = () => undefined,
): Generating {
  const { frontEnd, tokenizer } = application;
  const [tokens, hashes]: [number[], string[]] = [[], []];
  let resolve: (answer: Answer) => void = () => undefined;
  const answer = new Promise<Answer>((settle) => (resolve = settle));
  const handle = frontEnd.submit(
    {
      id: `request-${requests++}`,
      promptTokens,
      maxTokens: 12,
      temperature: 0,
      topP: 1,
      seed: 0,
      ignoreEndTokens: true,
      ...request,
    },
    {
      token(token, index, _logprob, _top, logitsHash) {
        tokens[index] = token;
        hashes[index] = logitsHash;
        onToken(index);
      },
      finished(summary) {
        resolve({ tokens, hashes, text: tokenizer.decode(Int32Array.from(tokens)), summary });
      },
    },
  );
  if (!handle.ok) throw new Error(`refused: ${handle.reason}`);
  return { answer, abort: () => handle.abort() };
}

export function generate(
  application: Application,
  promptTokens: Int32Array,
  request: Partial<FrontEndRequest> = {},
): Promise<Answer> {
  return startGenerating(application, promptTokens, request).answer;
}

/** `count` tokens of a text that repeats nowhere within the tests' contexts. */
export function promptOf(application: Application, count: number, start = 0): Int32Array {
  const words = Array.from({ length: count }, (_, index) => `${(index + start) * 7919} sparrows`);
  const tokens = application.tokenizer.encode(words.join(", "));
  if (tokens.length < count) throw new Error("the text is too short");
  return Int32Array.from(tokens.slice(0, count));
}
