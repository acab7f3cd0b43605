/**
 * The one error type that this package throws for bad input and broken set-up.
 *
 * `code` is stable and may be matched by programs; `field`, `value` and `remedy` tell a person what to change.
 * Expected failures at run time (a lookup that timed out, a block that failed to load) are values, never thrown.
 */
export type ErrorCode =
  | "INVALID_VALUE"
  | "INVALID_TYPE"
  | "MISSING"
  | "UNSUPPORTED"
  | "CAPACITY"
  | "NATIVE_MISSING"
  | "OPTIONAL_MISSING"
  | "MODEL_INVALID"
  | "WRONG_THREAD"
  | "NOT_IDLE"
  | "UNKNOWN_REQUEST"
  | "CLOSED"
  | "TIMEOUT"
  | "BROKEN_INVARIANT";

export interface ErrorDetails {
  readonly code: ErrorCode;
  /** What is wrong, as the user knows it: a setting's name, an argument, a file. */
  readonly field: string;
  /** The offending value; printed shortened. */
  readonly value?: unknown;
  /** What the person can do about it, as an imperative sentence. */
  readonly remedy: string;
  readonly problem: string;
  readonly cause?: unknown;
}

const BRAND = Symbol.for("mooncake-kv.error");

export class MooncakeKvError extends Error {
  readonly code: ErrorCode;
  readonly field: string;
  readonly value: unknown;
  readonly remedy: string;
  readonly [BRAND] = true;

  constructor(details: ErrorDetails) {
    const shown = details.value === undefined ? "" : ` (got ${shorten(details.value)})`;
    super(
      `${details.field}: ${details.problem}${shown}. ${details.remedy}`,
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    this.name = "MooncakeKvError";
    this.code = details.code;
    this.field = details.field;
    this.value = details.value;
    this.remedy = details.remedy;
  }

  /** `instanceof` holds over duplicate copies of this package, because the brand is a registered symbol. */
  static override [Symbol.hasInstance](candidate: unknown): boolean {
    return typeof candidate === "object" && candidate !== null && BRAND in candidate;
  }
}

/** Throws a MooncakeKvError given in one line: for checks of many fields in a row. */
export function fail(
  code: ErrorCode,
  field: string,
  value: unknown,
  problem: string,
  remedy: string,
): never {
  throw new MooncakeKvError({ code, field, value, problem, remedy });
}

/** Stops the caller loudly: a state that the design excludes was reached. */
export function brokenInvariant(what: string, value?: unknown): never {
  throw new MooncakeKvError({
    code: "BROKEN_INVARIANT",
    field: what,
    value,
    problem: "this state must not be reachable",
    remedy: "Report it together with the trace or the seed.",
  });
}

function shorten(value: unknown): string {
  let text: string;
  try {
    text =
      typeof value === "string" ? JSON.stringify(value) : (JSON.stringify(value) ?? String(value));
  } catch {
    text = String(value);
  }
  return text.length > 120 ? `${text.slice(0, 117)}...` : text;
}
