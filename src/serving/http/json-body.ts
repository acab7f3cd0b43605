import { jsonExcess } from "../../config/json-text.ts";
import { ApiError, badParameter } from "./errors.ts";

/**
 * The JSON value of a body; undefined for an empty one, which some routes take. Throws 400 for what is no UTF-8, no JSON, or holds more than JSON_LIMITS: the last is found
 * before parsing, which would make gigabytes of objects out of some megabytes of text. A field named `__proto__` is a field.
 */
export function parseJsonBody(bytes: Uint8Array): unknown {
  if (bytes.length === 0) return undefined;
  const text = decoded(bytes);
  const excess = jsonExcess(text);
  if (excess !== null) {
    const { field, problem } = excess;
    if (field !== null) throw badParameter(field, `${problem}.`);
    throw new ApiError(400, `The body ${problem}.`, "invalid_value");
  }
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw invalidJson(error instanceof Error ? error.message : String(error));
  }
}

/** What is no UTF-8 would become other text than the client's, and another prompt. */
function decoded(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw invalidJson("it is not encoded in UTF-8");
  }
}

function invalidJson(problem: string): ApiError {
  return new ApiError(400, `The body is no valid JSON: ${problem}.`, "invalid_json");
}
