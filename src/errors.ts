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
    const shown = details.value === undefined ? "" : ` (got ${showValue(details.value)})`;
    const field = clip(details.field, FIELD_CHARACTERS_MAX);
    const problem = clip(details.problem, TEXT_CHARACTERS_MAX);
    const remedy = clip(details.remedy, TEXT_CHARACTERS_MAX);
    super(
      `${field}: ${problem}${shown}. ${remedy}`,
      details.cause === undefined ? undefined : { cause: details.cause },
    );
    this.name = "MooncakeKvError";
    this.code = details.code;
    this.field = field;
    this.value = details.value;
    this.remedy = remedy;
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

/** Characters of a field's name, of a problem and of a remedy: whatever a caller was handed, an error stays readable. */
const FIELD_CHARACTERS_MAX = 240;
const TEXT_CHARACTERS_MAX = 2000;
const VALUE_CHARACTERS_MAX = 120;

function clip(text: string, charactersMax: number): string {
  return text.length > charactersMax ? `${text.slice(0, charactersMax - 3)}...` : text;
}

/**
 * A value as errors and warnings show it: JSON, cut at `charactersMax`. It reads no more than it shows, so neither size, depth,
 * circles nor getters that throw do any harm.
 */
export function showValue(value: unknown, charactersMax = VALUE_CHARACTERS_MAX): string {
  const shown = { text: "", charactersMax };
  try {
    append(shown, value);
  } catch {
    shown.text += "(unreadable)";
  }
  return clip(shown.text, charactersMax).toWellFormed();
}

/** Each level adds a character before it goes deeper, so the length bounds the depth too. */
function append(
  shown: { text: string; readonly charactersMax: number },
  value: unknown,
  plain = false,
): void {
  const full = (): boolean => shown.text.length > shown.charactersMax;
  if (typeof value === "string") {
    shown.text += JSON.stringify(value.slice(0, shown.charactersMax + 1));
  } else if (typeof value === "function") {
    shown.text += `function ${value.name}`;
  } else if (typeof value !== "object" || value === null) {
    shown.text += String(value);
  } else if (Array.isArray(value)) {
    shown.text += "[";
    for (let index = 0; index < value.length && !full(); index++) {
      if (index > 0) shown.text += ",";
      append(shown, value[index]);
    }
    shown.text += "]";
  } else if (ArrayBuffer.isView(value)) {
    shown.text += `${value.byteLength} bytes`;
  } else if (!plain && "toJSON" in value && typeof value.toJSON === "function") {
    append(shown, value.toJSON(), true);
  } else {
    let separator = "{";
    for (const name in value) {
      if (!Object.hasOwn(value, name)) continue;
      if (full()) break;
      shown.text += `${separator}${JSON.stringify(name.slice(0, shown.charactersMax + 1))}:`;
      append(shown, (value as Readonly<Record<string, unknown>>)[name]);
      separator = ",";
    }
    shown.text += separator === "{" ? "{}" : "}";
  }
}
