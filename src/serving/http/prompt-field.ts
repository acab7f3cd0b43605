import { showValue } from "../../errors.ts";
import { badParameter } from "./errors.ts";

const PROMPT = "must be a text, a list of token ids, or a list with one such prompt";
const TOKEN_ID = "must be a token id: a whole number from 0";

/** What a list of token ids is checked against. */
export interface PromptLimits {
  readonly vocabSize: number;
  /** Throws for a prompt of this many tokens when that is too long. */
  readonly checkLength: (tokens: number) => void;
}

/**
 * The prompt of a completion: text, or token ids. Throws 400 at the first wrong element, so that a large list costs no more than
 * reading it up to there.
 */
export function parsePrompt(prompt: unknown, limits: PromptLimits): string | Int32Array {
  if (prompt === undefined) {
    throw badParameter("prompt", `is missing; it ${PROMPT}.`, "missing_parameter");
  }
  if (typeof prompt === "string") return prompt;
  if (!Array.isArray(prompt)) throw wrong(prompt);
  const list: readonly unknown[] = prompt;
  const [first] = list;
  if (typeof first !== "string" && !Array.isArray(first)) return tokenIds(list, "prompt", limits);
  if (list.length > 1) {
    const problem = `holds ${list.length} prompts. Send one request for each.`;
    throw badParameter("prompt", problem, "unsupported_parameter");
  }
  return typeof first === "string"
    ? first
    : tokenIds(first as readonly unknown[], "prompt[0]", limits);
}

function tokenIds(list: readonly unknown[], at: string, limits: PromptLimits): Int32Array {
  if (list.length > 0 && typeof list[0] !== "number") throw wrong(list[0], `${at}[0]`);
  limits.checkLength(list.length);
  const tokens = new Int32Array(list.length);
  for (let index = 0; index < list.length; index++) {
    const token = list[index];
    if (typeof token !== "number" || !Number.isInteger(token))
      throw wrong(token, `${at}[${index}]`);
    if (token < 0) throw badParameter(`${at}[${index}]`, `${TOKEN_ID}.`);
    if (token >= limits.vocabSize) {
      const problem = `token id ${token} is not below the vocabulary's size, ${limits.vocabSize}.`;
      throw badParameter("prompt", problem);
    }
    tokens[index] = token;
  }
  return tokens;
}

function wrong(value: unknown, at?: string): Error {
  const where = at === undefined ? "" : ` (${at} is ${showValue(value, 80)})`;
  return badParameter("prompt", `${PROMPT}${where}.`);
}
