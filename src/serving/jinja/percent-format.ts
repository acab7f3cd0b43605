import { represent, textOf } from "./text-of.ts";
import { PyTuple, type Value, defined, fault, numeric, typeName } from "./values.ts";

const DIRECTIVE = /%(?:\(([^)]*)\))?([-+ 0#]*)(\d+)?(?:\.(\d+))?([^])?/gu;
const WIDTH_MAX = 10_000;

/** Python's `text % values`. Throws TemplateFault for what the original refuses, and for directives that no template has. */
export function formatPercent(text: string, values: Value): string {
  const mapping = values instanceof Map ? values : null;
  const list = values instanceof PyTuple ? values.items : [values];
  let used = 0;
  const next = (): Value => {
    if (used >= list.length) throw fault("not enough arguments for format string");
    return list[used++]!;
  };
  const formatted = text.replaceAll(
    DIRECTIVE,
    (_, key: string | undefined, flags: string, width, precision, kind: string | undefined) => {
      if (kind === "%") return "%";
      if (kind === undefined) throw fault("incomplete format");
      const value = key === undefined ? next() : keyed(mapping, key);
      const digits = precision === undefined ? undefined : Number(precision);
      const body = converted(kind, value, flags, digits);
      return padded(body, flags, width === undefined ? 0 : Number(width), "sr".includes(kind));
    },
  );
  if (mapping === null && used < list.length) {
    throw fault("not all arguments converted during string formatting");
  }
  return formatted;
}

function keyed(mapping: Map<Value, Value> | null, key: string): Value {
  if (mapping === null) throw fault("format requires a mapping");
  const value = mapping.get(key);
  if (value === undefined) throw fault(`no key ${represent(key)} for a format string`);
  return value;
}

function converted(kind: string, value: Value, flags: string, digits: number | undefined): string {
  if (kind === "s") return Array.from(textOf(value)).slice(0, digits).join("");
  if (kind === "r") return Array.from(represent(value)).slice(0, digits).join("");
  const number = numeric(defined(value));
  if (!"dixXofFeE".includes(kind)) throw fault(`the format %${kind} is not built`);
  if (number === undefined)
    throw fault(`%${kind} format: a number is required, not ${typeName(value)}`);
  const sign = number < 0 ? "-" : flags.includes("+") ? "+" : flags.includes(" ") ? " " : "";
  const size = Math.abs(number);
  if (digits !== undefined && digits > 100) throw fault("a precision over 100");
  if (kind === "f" || kind === "F") return sign + size.toFixed(digits ?? 6);
  if (kind === "e" || kind === "E") {
    const written = size.toExponential(digits ?? 6).replace(/e([-+])(\d)$/, "e$10$2");
    return sign + (kind === "E" ? written.toUpperCase() : written);
  }
  const radix = kind === "x" || kind === "X" ? 16 : kind === "o" ? 8 : 10;
  const written = Math.trunc(size)
    .toString(radix)
    .padStart(digits ?? 0, "0");
  return sign + (kind === "X" ? written.toUpperCase() : written);
}

function padded(body: string, flags: string, width: number, isText: boolean): string {
  if (width > WIDTH_MAX) throw fault("a width over 10,000");
  const missing = width - Array.from(body).length;
  if (missing <= 0) return body;
  if (flags.includes("-")) return body + " ".repeat(missing);
  if (!flags.includes("0") || isText) return " ".repeat(missing) + body;
  const sign = /^[-+ ]/.exec(body)?.[0] ?? "";
  return sign + "0".repeat(missing) + body.slice(sign.length);
}
