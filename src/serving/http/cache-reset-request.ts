import type { CacheResetRequest } from "../cache-reset.ts";
import { ApiError, badParameter } from "./errors.ts";
import { unknownField } from "./known-fields.ts";

const PARAMETERS = ["reset_running_requests", "reset_external", "force"];

/**
 * vLLM's query parameters, and `force` of our own. Throws 400 for a value that is no truth value, for a parameter that nobody knows
 * and for parameters in a body: each would leave the pool as it is and look like success.
 */
export function parseCacheReset(query: unknown, body: unknown): CacheResetRequest {
  const given = typeof query === "object" && query !== null ? { ...query } : {};
  const fields: Readonly<Record<string, unknown>> = given;
  const unknown = Object.keys(fields).find((name) => !PARAMETERS.includes(name));
  if (unknown !== undefined) throw unknownField("", unknown, PARAMETERS);
  if (!asksNothing(body)) {
    const text = `The body must be empty. Put ${PARAMETERS.join(", ")} into the URL, as in ?reset_external=true.`;
    throw new ApiError(400, text, "invalid_value");
  }
  return {
    resetRunningRequests: truth(fields, "reset_running_requests"),
    resetExternal: truth(fields, "reset_external"),
    force: truth(fields, "force"),
  };
}

/** No body, or one that a client sends when it has nothing to say. */
function asksNothing(body: unknown): boolean {
  if (body === undefined || body === null || body === "") return true;
  return typeof body === "object" && Object.keys(body).length === 0;
}

/** As vLLM's server reads them. */
const TRUE = new Set(["true", "1", "on", "t", "y", "yes"]);
const FALSE = new Set(["false", "0", "off", "f", "n", "no"]);

function truth(fields: Readonly<Record<string, unknown>>, name: string): boolean {
  const value = fields[name];
  if (value === undefined) return false;
  const text = typeof value === "string" ? value.toLowerCase() : "";
  if (TRUE.has(text)) return true;
  if (FALSE.has(text)) return false;
  throw badParameter(name, "must be true or false");
}
