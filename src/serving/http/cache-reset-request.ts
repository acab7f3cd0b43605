import type { CacheResetRequest } from "../cache-reset.ts";
import { badParameter } from "./errors.ts";

/** vLLM's query parameters, and `force` of our own. Throws 400 for a value that is no truth value. */
export function parseCacheReset(query: unknown): CacheResetRequest {
  const given = typeof query === "object" && query !== null ? { ...query } : {};
  const fields: Readonly<Record<string, unknown>> = given;
  return {
    resetRunningRequests: truth(fields, "reset_running_requests"),
    resetExternal: truth(fields, "reset_external"),
    force: truth(fields, "force"),
  };
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
