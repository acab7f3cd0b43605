import type { ModelTokenizer } from "../model/tokenizer.ts";

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * A token's name in log-probabilities, different for different bytes: its text; `bytes:\xe2\x82` (as OpenAI writes it) for a
 * part of a character; `token_id:257` (as vLLM writes it) for a token without text.
 */
export function tokenText(tokenizer: ModelTokenizer, token: number): string {
  const bytes = tokenizer.tokenBytes(token);
  if (bytes.length === 0) return `token_id:${token}`;
  try {
    return strictUtf8.decode(bytes);
  } catch {
    return `bytes:${Array.from(bytes, (byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("")}`;
  }
}

/** JSON has no infinities: as vLLM does, -9999 stands for a probability of nothing. Unknown is null. */
export function jsonLogprob(logprob: number): number | null {
  return Number.isNaN(logprob) ? null : Math.max(logprob, -9999);
}

/** Special tokens have no bytes, and their written forms are shorter than this. */
const SPECIAL_CHARACTERS_MAX = 64;
const longest = new WeakMap<ModelTokenizer, number>();

/** No token stands for more characters than this. */
export function longestTokenText(tokenizer: ModelTokenizer): number {
  let most = longest.get(tokenizer);
  if (most === undefined) {
    most = SPECIAL_CHARACTERS_MAX;
    for (let token = 0; token < tokenizer.vocabSize; token++) {
      most = Math.max(most, tokenizer.tokenBytes(token).length);
    }
    longest.set(tokenizer, most);
  }
  return most;
}
