import { toJson } from "./json-text.ts";
import { type Filter, sequenceFilters } from "./sequence-filters.ts";
import { argument, capitalize, replaced } from "./methods.ts";
import { formatPercent } from "./percent-format.ts";
import { PYTHON_SPACE, splitLines, stripEnd, stripStart } from "./python-space.ts";
import { KNOWN } from "./tests.ts";
import { textOf } from "./text-of.ts";
import {
  PyFloat,
  PyTuple,
  Undefined,
  type Value,
  defined,
  fault,
  given as present,
  lengthOf,
  numeric,
  truth,
  typeName,
} from "./values.ts";

function numberOf(value: Value | undefined, otherwise: number): number {
  if (value === undefined) return otherwise;
  if (typeof value === "number") return value;
  throw fault(`a number is needed, got '${typeName(value)}'`);
}

function textGiven(value: Value | undefined, otherwise: string): string {
  return value === undefined ? otherwise : textOf(value);
}

const byDefault: Filter = (value, given) => {
  const otherwise = present(argument(given, 0, "default_value"), "");
  const falseToo = truth(argument(given, 1, "boolean") ?? false);
  return value instanceof Undefined || (falseToo && !truth(value)) ? otherwise : value;
};

const toInt: Filter = (value, given) => {
  const otherwise = present(argument(given, 0, "default"), 0);
  const base = numberOf(argument(given, 1, "base"), 10);
  const number = numeric(defined(value));
  if (number !== undefined) return Number.isFinite(number) ? Math.trunc(number) : otherwise;
  if (typeof value !== "string") return otherwise;
  const trimmed = stripEnd(stripStart(value)).replaceAll(/(?<=\d)_(?=\d)/g, "");
  if (base === 10 && /^[-+]?\d+$/.test(trimmed)) return Number(trimmed);
  if (base === 16 && /^[-+]?(0[xX])?[\da-fA-F]+$/.test(trimmed))
    return Number.parseInt(trimmed, 16);
  const float = base === 10 ? floatOf(trimmed) : undefined;
  return float === undefined || !Number.isFinite(float) ? otherwise : Math.trunc(float);
};

function floatOf(text: string): number | undefined {
  if (/^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(text)) return Number(text);
  return undefined;
}

const toFloat: Filter = (value, given) => {
  const number = numeric(defined(value));
  if (number !== undefined) return new PyFloat(number);
  const parsed =
    typeof value === "string"
      ? floatOf(stripEnd(stripStart(value)).replaceAll("_", ""))
      : undefined;
  return parsed === undefined
    ? present(argument(given, 0, "default"), new PyFloat(0))
    : new PyFloat(parsed);
};

const trim: Filter = (value, given) => {
  const characters = argument(given, 0, "chars") ?? null;
  const text = textOf(value);
  if (characters === null) return stripEnd(stripStart(text));
  const set = new Set(Array.from(textOf(characters)));
  const all = Array.from(text);
  const first = all.findIndex((one) => !set.has(one));
  return first < 0 ? "" : all.slice(first, all.findLastIndex((one) => !set.has(one)) + 1).join("");
};

const indent: Filter = (value, given) => {
  const width = argument(given, 0, "width") ?? 4;
  const first = truth(argument(given, 1, "first") ?? false);
  const blank = truth(argument(given, 2, "blank") ?? false);
  const by = typeof width === "string" ? width : " ".repeat(Math.min(numberOf(width, 4), 1000));
  // The line end put behind keeps a last empty line.
  const [head = "", ...rest] = splitLines(`${textOf(value)}\n`);
  const others = rest.map((line) => (line === "" && !blank ? line : by + line));
  return (first ? by : "") + [head, ...others].join("\n");
};

const round: Filter = (value, given) => {
  const number = numeric(defined(value));
  if (number === undefined) throw fault(`a number is needed, got '${typeName(value)}'`);
  const precision = numberOf(argument(given, 0, "precision"), 0);
  const method = textGiven(argument(given, 1, "method"), "common");
  const factor = 10 ** precision;
  if (method === "ceil") return new PyFloat(Math.ceil(number * factor) / factor);
  if (method === "floor") return new PyFloat(Math.floor(number * factor) / factor);
  const result = halfToEven(number * factor) / factor;
  return typeof value === "number" ? result : new PyFloat(result);
};

function halfToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&#34;",
  "'": "&#39;",
};
const escape: Filter = (value) => textOf(value).replaceAll(/[&<>"']/g, (one) => ESCAPES[one]!);

const format: Filter = (value, { positional, keywords }) =>
  keywords.size > 0
    ? formatPercent(textOf(value), new Map<Value, Value>(keywords))
    : formatPercent(textOf(value), new PyTuple(positional));

const titled: Filter = (value) =>
  textOf(value)
    .split(new RegExp(`([-${PYTHON_SPACE}({[<]+)`, "u"))
    .map((part) => capitalizedWord(part))
    .join("");

function capitalizedWord(part: string): string {
  const [first = "", ...rest] = Array.from(part);
  return first.toUpperCase() + rest.join("").toLowerCase();
}

/** Jinja's filters by name. */
export const FILTERS: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ["tojson", toJson],
  ["default", byDefault],
  ["d", byDefault],
  ["length", (value) => lengthOf(value)],
  ["count", (value) => lengthOf(value)],
  ["trim", trim],
  ["upper", (value) => textOf(value).toUpperCase()],
  ["lower", (value) => textOf(value).toLowerCase()],
  ["capitalize", (value) => capitalize(textOf(value))],
  ["title", titled],
  ["string", (value) => textOf(value)],
  ["safe", (value) => textOf(value)],
  ["escape", escape],
  ["e", escape],
  ["int", toInt],
  ["float", toFloat],
  [
    "abs",
    (value) => {
      const number = numeric(defined(value));
      if (number === undefined) throw fault(`bad operand type for abs(): '${typeName(value)}'`);
      return value instanceof PyFloat ? new PyFloat(Math.abs(number)) : Math.abs(number);
    },
  ],
  ["round", round],
  ["indent", indent],
  ["format", format],
  [
    "replace",
    (value, given) => {
      const times = argument(given, 2, "count") ?? null;
      const [old, by] = [
        textGiven(argument(given, 0, "old"), ""),
        textGiven(argument(given, 1, "new"), ""),
      ];
      return replaced(textOf(value), old, by, times === null ? -1 : numberOf(times, -1));
    },
  ],
  [
    "center",
    (value, given) => {
      const text = textOf(value);
      const missing =
        Math.min(numberOf(argument(given, 0, "width"), 80), 10_000) - Array.from(text).length;
      if (missing <= 0) return text;
      const before =
        Math.floor(missing / 2) + (missing & numberOf(argument(given, 0, "width"), 80) & 1);
      return " ".repeat(before) + text + " ".repeat(missing - before);
    },
  ],
  ["wordcount", (value) => [...textOf(value).matchAll(/[\p{L}\p{N}_]+/gu)].length],
  ...sequenceFilters((name) => FILTERS.get(name)),
]);

for (const name of FILTERS.keys()) KNOWN.filters.add(name);
