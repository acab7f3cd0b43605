import { showValue } from "../../errors.ts";
import { ApiError, badParameter } from "./errors.ts";
import { unknownField } from "./known-fields.ts";

/** Parameters of OpenAI's or vLLM's API that change no answer here. */
const IGNORED: ReadonlySet<string> = new Set([
  "user",
  "metadata",
  "store",
  "service_tier",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_retention",
  "parallel_tool_calls",
  "kv_transfer_params",
  "request_id",
  "priority",
]);

interface Unsupported {
  /** Values that ask for nothing (null always does). */
  readonly harmless: (value: unknown) => boolean;
  readonly remedy: string;
}

const only = (...values: readonly unknown[]): Unsupported["harmless"] => {
  return (value) => values.includes(value);
};
/** Nothing is counted or listed: a large value costs no more than a small one. */
const empty = (value: unknown): boolean => {
  if (Array.isArray(value)) return value.length === 0;
  if (typeof value !== "object" || value === null) return false;
  for (const _ in value) return false;
  return true;
};
const never = (): boolean => false;

const plainText = (value: unknown): boolean => {
  if (typeof value !== "object" || value === null) return false;
  if (!("type" in value) || value.type !== "text") return false;
  for (const name in value)
    if (name !== "type") throw unknownField("response_format.", name, ["type"]);
  return true;
};
const textOnly = (value: unknown): boolean =>
  Array.isArray(value) && value.length === 1 && value[0] === "text";

/** Known parameters that are refused, because ignoring them would change the answer without a word. */
const UNSUPPORTED: ReadonlyMap<string, Unsupported> = new Map([
  ["n", { harmless: only(1), remedy: "Send one request for each answer." }],
  ["best_of", { harmless: only(1), remedy: "Leave it out." }],
  ["echo", { harmless: only(false), remedy: "Leave it out and put the prompt in front yourself." }],
  ["suffix", { harmless: only(""), remedy: "Leave it out." }],
  ["tools", { harmless: empty, remedy: "Describe the tools in a message." }],
  ["tool_choice", { harmless: only("none", "auto"), remedy: "Leave it out." }],
  ["functions", { harmless: empty, remedy: "Describe the functions in a message." }],
  ["function_call", { harmless: only("none", "auto"), remedy: "Leave it out." }],
  ["response_format", { harmless: plainText, remedy: "Ask for the format in a message." }],
  ["presence_penalty", { harmless: only(0), remedy: "Leave it out." }],
  ["frequency_penalty", { harmless: only(0), remedy: "Leave it out." }],
  ["repetition_penalty", { harmless: only(1), remedy: "Leave it out." }],
  ["logit_bias", { harmless: empty, remedy: "Leave it out." }],
  ["top_k", { harmless: only(-1, 0), remedy: "Use top_p." }],
  ["min_p", { harmless: only(0), remedy: "Use top_p." }],
  ["prompt_logprobs", { harmless: never, remedy: "Leave it out." }],
  ["modalities", { harmless: textOnly, remedy: "Leave it out." }],
  ["audio", { harmless: never, remedy: "Leave it out." }],
  ["prediction", { harmless: never, remedy: "Leave it out." }],
  ["web_search_options", { harmless: never, remedy: "Leave it out." }],
  ["reasoning_effort", { harmless: only("none"), remedy: "Leave it out." }],
  ["verbosity", { harmless: only("medium"), remedy: "Leave it out." }],
]);

/**
 * Those parameters of a body that are `known`, the ones that a schema reads. Throws 400 when the body is no object, asks for
 * something unsupported, or has a parameter that nobody knows.
 */
export function supportedParameters(
  body: unknown,
  known: readonly string[],
): Record<string, unknown> {
  if (body === undefined) {
    throw new ApiError(400, "The body is empty. Send a JSON object.", "invalid_json");
  }
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new ApiError(400, "The body must be a JSON object.", "invalid_type");
  }
  const supported: Record<string, unknown> = {};
  for (const name in body) {
    if (IGNORED.has(name)) continue;
    const value = (body as Readonly<Record<string, unknown>>)[name];
    const refusal = UNSUPPORTED.get(name);
    if (refusal === undefined) {
      if (!known.includes(name)) throw unknownField("", name, known);
      supported[name] = value;
    } else if (value !== null && !refusal.harmless(value)) {
      const problem = `${showValue(value, 80)} is not supported here. ${refusal.remedy}`;
      throw badParameter(name, problem, "unsupported_parameter");
    }
  }
  return supported;
}
