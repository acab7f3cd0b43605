import { floatText } from "./text-of.ts";
import {
  type Arguments,
  PyFloat,
  PyTuple,
  type Value,
  compare,
  fault,
  truth,
  typeName,
} from "./values.ts";

const NESTING_MAX = 100;

interface JsonStyle {
  readonly ascii: boolean;
  readonly indent: string | null;
  readonly itemSeparator: string;
  readonly keySeparator: string;
  readonly sorted: boolean;
}

/** The filter `tojson` as transformers defines it: `json.dumps` without escaping for HTML. */
export function toJson(value: Value, given: Arguments): string {
  return written(value, styleOf(given), 0);
}

function styleOf({ positional, keywords }: Arguments): JsonStyle {
  const [ascii = false, indentGiven = null, separatorsGiven = null, sorted = false] = [
    "ensure_ascii",
    "indent",
    "separators",
    "sort_keys",
  ].map((name, index) => (index < positional.length ? positional[index] : keywords.get(name)));
  const indent = indentOf(indentGiven);
  const style = { ascii: truth(ascii), indent, sorted: truth(sorted) };
  if (separatorsGiven === null) {
    return { ...style, itemSeparator: indent === null ? ", " : ",", keySeparator: ": " };
  }
  const pair = separatorsGiven instanceof PyTuple ? separatorsGiven.items : separatorsGiven;
  if (Array.isArray(pair) && typeof pair[0] === "string" && typeof pair[1] === "string") {
    return { ...style, itemSeparator: pair[0], keySeparator: pair[1] };
  }
  throw fault("tojson: separators must be two texts");
}

function indentOf(value: Value): string | null {
  if (value === null || typeof value === "string") return value;
  if (typeof value === "number" && value <= 64) return " ".repeat(Math.max(0, value));
  throw fault("tojson: indent must be a small number or a text");
}

function written(value: Value, style: JsonStyle, depth: number): string {
  if (depth > NESTING_MAX) throw fault("tojson: a value is nested too deeply");
  if (value === null) return "null";
  if (typeof value === "string") return jsonString(value, style.ascii);
  if (typeof value === "boolean" || typeof value === "number") return String(value);
  if (value instanceof PyFloat) return jsonFloat(value.value);
  if (value instanceof PyTuple || Array.isArray(value)) {
    const items = Array.isArray(value) ? value : value.items;
    const parts = items.map((item) => written(item, style, depth + 1));
    return enclosed("[", parts, "]", style, depth);
  }
  if (value instanceof Map) {
    const entries = [...value];
    if (style.sorted) entries.sort(([one], [other]) => compare(one, other));
    const parts = entries.map(([key, item]) => {
      const name = jsonString(keyText(key), style.ascii);
      return name + style.keySeparator + written(item, style, depth + 1);
    });
    return enclosed("{", parts, "}", style, depth);
  }
  throw fault(`Object of type ${typeName(value)} is not JSON serializable`);
}

function enclosed(
  open: string,
  parts: readonly string[],
  close: string,
  style: JsonStyle,
  depth: number,
): string {
  if (parts.length === 0) return open + close;
  if (style.indent === null) return open + parts.join(style.itemSeparator) + close;
  const inner = `\n${style.indent.repeat(depth + 1)}`;
  return `${open}${inner}${parts.join(style.itemSeparator + inner)}\n${style.indent.repeat(depth)}${close}`;
}

function keyText(key: Value): string {
  if (typeof key === "string") return key;
  if (key === null) return "null";
  if (typeof key === "number" || typeof key === "boolean") return String(key);
  if (key instanceof PyFloat) return jsonFloat(key.value);
  throw fault(`keys must be str, int, float, bool or None, not ${typeName(key)}`);
}

function jsonFloat(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Infinity" : "-Infinity";
  return floatText(value);
}

const SHORT: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\f": "\\f",
  "\b": "\\b",
};

function jsonString(text: string, ascii: boolean): string {
  // oxlint-disable-next-line no-control-regex
  const escaped = text.replaceAll(ascii ? /["\\]|[^ -~]/g : /["\\\x00-\x1f]/g, (unit) => {
    return SHORT[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
  return `"${escaped}"`;
}
