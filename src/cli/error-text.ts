import { MooncakeKvError } from "../errors.ts";

/** An error as a person reads it: the sentence alone where it is one of ours, the stack of what nobody foresaw. */
export function errorText(error: unknown): string {
  if (error instanceof MooncakeKvError) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
