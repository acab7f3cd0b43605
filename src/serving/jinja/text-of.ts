import {
  Callable,
  Lazy,
  LoopState,
  Namespace,
  PyFloat,
  PyTuple,
  Undefined,
  type Value,
  fault,
} from "./values.ts";

const NESTING_MAX = 100;

/** Python's `str()`: what `{{ value }}` prints. */
export function textOf(value: Value): string {
  if (typeof value === "string") return value;
  if (value instanceof Undefined) return "";
  return represent(value);
}

/** Python's `repr()`. */
export function represent(value: Value, depth = 0): string {
  if (depth > NESTING_MAX) throw fault("a value is nested too deeply to be printed");
  const inner = (item: Value): string => represent(item, depth + 1);
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return String(value);
  if (typeof value === "string") return quoted(value);
  if (value instanceof PyFloat) return floatText(value.value);
  if (Array.isArray(value)) return `[${value.map(inner).join(", ")}]`;
  if (value instanceof PyTuple) {
    return `(${value.items.map(inner).join(", ")}${value.items.length === 1 ? "," : ""})`;
  }
  if (value instanceof Map) {
    return `{${[...value].map(([key, item]) => `${inner(key)}: ${inner(item)}`).join(", ")}}`;
  }
  if (value instanceof Undefined) return "Undefined";
  if (value instanceof Lazy || value instanceof Callable || value instanceof LoopState) {
    // The original writes an address of its memory.
    throw fault("a function, a generator or the loop itself is printed");
  }
  if (value instanceof Namespace) {
    return `<Namespace ${represent(new Map<Value, Value>(value.attributes))}>`;
  }
  throw fault("a value cannot be printed");
}

/** Shortest digits that read back the same, in Python's notation. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (Object.is(value, -0)) return "-0.0";
  const [mantissa = "", exponentText = "0"] = value.toExponential().split("e");
  const exponent = Number(exponentText);
  if (exponent >= -4 && exponent < 16) {
    const plain =
      exponent < 0 ? value.toFixed(mantissaDigits(mantissa) - 1 - exponent) : String(value);
    return plain.includes(".") ? plain : `${plain}.0`;
  }
  const sign = exponent < 0 ? "-" : "+";
  return `${mantissa}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

function mantissaDigits(mantissa: string): number {
  return mantissa.replaceAll(/[-.]/g, "").length;
}

const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Zs}]/gu;
const NAMED: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replaceAll("\\", "\\\\").replaceAll(UNPRINTABLE, (character) => {
    if (character === " ") return character;
    const point = character.codePointAt(0)!;
    const hex = point.toString(16);
    if (NAMED[character] !== undefined) return NAMED[character];
    if (point < 0x100) return `\\x${hex.padStart(2, "0")}`;
    return point < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
  });
  return quote + (quote === "'" ? escaped.replaceAll("'", "\\'") : escaped) + quote;
}
