import { formatLocalTime } from "./local-time.ts";
import { setAttribute } from "./renderer.ts";
import { Scope } from "./scope.ts";
import { TemplateRefusal } from "./template-errors.ts";
import { textOf } from "./text-of.ts";
import {
  type Arguments,
  Callable,
  Namespace,
  type Value,
  fault,
  hashable,
  iterate,
  typeName,
} from "./values.ts";

/** As Jinja's sandbox has it. */
const RANGE_MAX = 100_000;

/** Functions of Jinja that no chat template needs. */
export const GLOBAL_GAPS: ReadonlySet<string> = new Set(["lipsum", "cycler", "joiner"]);

/** What every template finds: Jinja's functions and those that transformers adds. */
export function globalScope(nowMs: () => number): Scope {
  const scope = new Scope(null);
  const define = (name: string, call: (given: Arguments) => Value): void =>
    scope.set(name, new Callable(name, call));
  define("range", range);
  define("dict", (given) => dictOf(given));
  define("namespace", (given) => {
    const space = new Namespace();
    for (const [name, value] of dictOf(given)) setAttribute(space, textOf(name), value);
    return space;
  });
  define("raise_exception", ({ positional }) => {
    throw new TemplateRefusal(textOf(positional.length === 0 ? "" : positional[0]!));
  });
  define("strftime_now", ({ positional: [format] }) => {
    if (typeof format !== "string") throw fault("strftime_now needs a format");
    return formatLocalTime(nowMs(), format);
  });
  return scope;
}

function range({ positional }: Arguments): Value {
  const [first = 0, second, third = 1] = positional.map((value) => {
    if (typeof value === "number" || typeof value === "boolean") return Number(value);
    throw fault(`'${typeName(value)}' object cannot be interpreted as an integer`);
  });
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  if (third === 0) throw fault("range() arg 3 must not be zero");
  const count = Math.max(0, Math.ceil((stop - start) / third));
  if (count > RANGE_MAX) {
    throw fault(`Range too big. The sandbox blocks ranges larger than ${RANGE_MAX}.`);
  }
  return Array.from({ length: count }, (_, index) => start + index * third);
}

function dictOf({ positional, keywords }: Arguments): Map<Value, Value> {
  const [source] = positional;
  const entries: [Value, Value][] = [];
  if (source instanceof Map) entries.push(...source);
  else if (source !== undefined) {
    for (const pair of iterate(source)) {
      const [key, value, ...more] = iterate(pair);
      if (key === undefined || value === undefined || more.length > 0) {
        throw fault("a dict is made of pairs");
      }
      entries.push([hashable(key), value]);
    }
  }
  return new Map([...entries, ...keywords]);
}
