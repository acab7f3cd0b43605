import type { TopLogprob } from "../../blocks/logprob-rows.ts";
import type { ModelTokenizer } from "../model/tokenizer.ts";
import { StopStrings } from "./stop-strings.ts";

/** A generated token as the answer reports it. */
export interface AnswerToken {
  readonly token: number;
  /** NaN when unknown. */
  readonly logprob: number;
  readonly top: readonly TopLogprob[];
  /** Characters (code points) of the answer before the token's own. */
  readonly textOffset: number;
}

/** What is certain now: text, and the tokens whose text has begun in it. Either may be empty. */
export interface AnswerPiece {
  readonly text: string;
  readonly tokens: readonly AnswerToken[];
}

interface PendingToken extends AnswerToken {
  /** UTF-16 units of decoded text before the token's own. */
  readonly start: number;
}

/**
 * Makes text out of tokens: characters that spread over tokens come whole, stop strings cut it wherever token borders lie. A
 * token is reported together with the first piece of its text; one whose text begins at or after the cut is left out.
 */
export class AnswerText {
  readonly #decoder: ReturnType<ModelTokenizer["streamingDecoder"]>;
  readonly #endTokenIds: readonly number[];
  readonly #stops: StopStrings;
  #pending: PendingToken[] = [];
  #decodedUnits = 0;
  #decodedCharacters = 0;
  #givenUnits = 0;
  #tokenCount = 0;

  constructor(tokenizer: ModelTokenizer, stops: readonly string[]) {
    this.#decoder = tokenizer.streamingDecoder();
    this.#endTokenIds = tokenizer.endTokenIds;
    this.#stops = new StopStrings(stops);
  }

  /** A stop string was found: no more text will come. */
  get stopped(): boolean {
    return this.#stops.stopped;
  }
  get tokenCount(): number {
    return this.#tokenCount;
  }

  push(token: number, logprob: number, top: readonly TopLogprob[] | null): AnswerPiece {
    this.#tokenCount++;
    this.#pending.push({
      token,
      logprob,
      top: top ?? [],
      textOffset: this.#decodedCharacters,
      start: this.#decodedUnits,
    });
    return this.#take(this.#stops.push(this.#decoded(this.#decoder.push(token))), false);
  }

  /** The answer has ended. `atEndToken`: its last token says so and is no part of it. */
  finish(atEndToken: boolean): AnswerPiece {
    if (this.stopped) return { text: "", tokens: [] };
    const last = this.#pending.at(-1);
    if (atEndToken && last !== undefined && this.#endTokenIds.includes(last.token)) {
      this.#pending.pop();
    }
    // Bytes that wait for the rest of their character are left out, as vLLM leaves them: the text ends before it.
    return this.#take(this.#stops.flush(), true);
  }

  #decoded(text: string): string {
    this.#decodedUnits += text.length;
    for (const _ of text) this.#decodedCharacters++;
    return text;
  }

  /** Gives out `text` with the tokens that begin in it; all that are left when `everything`. */
  #take(text: string, everything: boolean): AnswerPiece {
    this.#givenUnits += text.length;
    let count = 0;
    while (count < this.#pending.length) {
      if (!everything && this.#pending[count]!.start >= this.#givenUnits) break;
      count++;
    }
    return { text, tokens: this.#pending.splice(0, count) };
  }
}
