import { formatBraces } from "./brace-format.ts";
import { SIZE_MAX, bounded } from "./operators.ts";
import { PYTHON_SPACE, isSpace, splitLines, stripEnd, stripStart } from "./python-space.ts";
import { textOf } from "./text-of.ts";
import {
  type Arguments,
  Callable,
  PyTuple,
  type Value,
  equal,
  fault,
  given as present,
  hashable,
  iterate,
  typeName,
} from "./values.ts";

type Method<Self> = (self: Self, given: Arguments) => Value;

/** The argument at a place or under a name. */
export function argument(given: Arguments, index: number, name: string): Value | undefined {
  return index < given.positional.length ? given.positional[index] : given.keywords.get(name);
}

function text(given: Arguments, index: number, name: string): string {
  const value = argument(given, index, name);
  if (typeof value === "string") return value;
  throw fault(`expected a text, got ${value === undefined ? "nothing" : typeName(value)}`);
}

function count(given: Arguments, index: number, name: string, otherwise: number): number {
  const value = argument(given, index, name) ?? otherwise;
  if (typeof value === "number") return value;
  throw fault(`expected a number, got ${typeName(value)}`);
}

/** The characters that strip() takes away, or undefined for white space. */
function stripped(self: string, given: Arguments, start: boolean, end: boolean): string {
  const characters = given.positional[0] ?? null;
  if (characters === null) {
    const left = start ? stripStart(self) : self;
    return end ? stripEnd(left) : left;
  }
  const set = new Set(iterate(characters));
  const all = Array.from(self);
  let [from, to] = [0, all.length];
  if (start) while (from < to && set.has(all[from]!)) from++;
  if (end) while (to > from && set.has(all[to - 1]!)) to--;
  return all.slice(from, to).join("");
}

function matches(
  self: string,
  given: Arguments,
  test: (self: string, part: string) => boolean,
): boolean {
  const part = given.positional[0];
  if (given.positional.length !== 1) throw fault("startswith and endswith take one argument here");
  const parts = part instanceof PyTuple ? part.items : [part];
  return parts.some((one) => {
    if (typeof one === "string") return test(self, one);
    throw fault("startswith first arg must be str or a tuple of str");
  });
}

const WORD = new RegExp(`[^${PYTHON_SPACE}]+`, "gu");

function splitText(self: string, given: Arguments): string[] {
  const separator = argument(given, 0, "sep") ?? null;
  const most = count(given, 1, "maxsplit", -1);
  if (separator === null) return splitSpaces(self, most);
  if (typeof separator !== "string") throw fault("must be str or None");
  if (separator === "") throw fault("empty separator");
  const parts = self.split(separator);
  if (most < 0 || parts.length <= most + 1) return parts;
  return [...parts.slice(0, most), parts.slice(most).join(separator)];
}

function splitSpaces(self: string, most: number): string[] {
  const parts: string[] = [];
  for (const { 0: word, index } of self.matchAll(WORD)) {
    if (most >= 0 && parts.length === most) {
      parts.push(self.slice(index));
      break;
    }
    parts.push(word);
  }
  return parts;
}

function splitFromRight(self: string, given: Arguments): string[] {
  const separator = argument(given, 0, "sep") ?? null;
  const most = count(given, 1, "maxsplit", -1);
  if (separator === null || most < 0) {
    if (separator === null && most >= 0)
      throw fault("rsplit without a separator has no limit here");
    return splitText(self, {
      ...given,
      positional: given.positional.slice(0, 1),
      keywords: new Map([["sep", separator]]),
    });
  }
  if (typeof separator !== "string" || separator === "") throw fault("empty separator");
  const parts = self.split(separator);
  if (parts.length <= most + 1) return parts;
  const first = parts.slice(0, parts.length - most).join(separator);
  return most === 0 ? [self] : [first, ...parts.slice(-most)];
}

export function replaced(self: string, old: string, by: string, most: number): string {
  const parts = old === "" ? ["", ...Array.from(self), ""] : self.split(old);
  const times = most < 0 ? parts.length - 1 : Math.min(most, parts.length - 1);
  if (self.length + times * by.length > SIZE_MAX) throw fault("a text becomes too long");
  const done = parts.slice(0, times + 1).join(by);
  return times + 1 < parts.length ? done + old + parts.slice(times + 1).join(old) : done;
}

export function title(self: string): string {
  return self.replaceAll(/\p{L}+/gu, (word) => {
    const [first = "", ...rest] = Array.from(word);
    return first.toUpperCase() + rest.join("").toLowerCase();
  });
}

export function capitalize(self: string): string {
  const [first = "", ...rest] = Array.from(self);
  return first.toUpperCase() + rest.join("").toLowerCase();
}

/** Position of a part in code points; -1 when it is not there. */
function position(self: string, part: string, fromEnd: boolean): number {
  const unit = fromEnd ? self.lastIndexOf(part) : self.indexOf(part);
  return unit < 0 ? -1 : Array.from(self.slice(0, unit)).length;
}

function one(given: Arguments): string {
  if (given.positional.length > 1) throw fault("find, index and count take one argument here");
  return text(given, 0, "sub");
}

function found(self: string, part: string, fromEnd: boolean): number {
  const at = position(self, part, fromEnd);
  if (at < 0) throw fault("substring not found");
  return at;
}

function parted(self: string, separator: string, at: number, fromEnd: boolean): PyTuple {
  if (separator === "") throw fault("empty separator");
  if (at < 0) return new PyTuple(fromEnd ? ["", "", self] : [self, "", ""]);
  return new PyTuple([self.slice(0, at), separator, self.slice(at + separator.length)]);
}

function filled(self: string, given: Arguments, left: number): string {
  const missing = count(given, 0, "width", 0) - Array.from(self).length;
  const fill = given.positional[1] === undefined ? " " : text(given, 1, "fillchar");
  if (missing <= 0) return self;
  if (missing > SIZE_MAX) throw fault("a text becomes too long");
  const before = Math.round(missing * left);
  return fill.repeat(before) + self + fill.repeat(missing - before);
}

const STRING: Readonly<Record<string, Method<string>>> = {
  upper: (self) => self.toUpperCase(),
  lower: (self) => self.toLowerCase(),
  casefold: (self) => self.toLowerCase(),
  title: (self) => title(self),
  capitalize: (self) => capitalize(self),
  strip: (self, given) => stripped(self, given, true, true),
  lstrip: (self, given) => stripped(self, given, true, false),
  rstrip: (self, given) => stripped(self, given, false, true),
  startswith: (self, given) => matches(self, given, (all, part) => all.startsWith(part)),
  endswith: (self, given) => matches(self, given, (all, part) => all.endsWith(part)),
  split: splitText,
  rsplit: splitFromRight,
  splitlines: (self, given) => splitLines(self, argument(given, 0, "keepends") === true),
  replace: (self, given) =>
    replaced(self, text(given, 0, "old"), text(given, 1, "new"), count(given, 2, "count", -1)),
  find: (self, given) => position(self, one(given), false),
  rfind: (self, given) => position(self, one(given), true),
  index: (self, given) => found(self, one(given), false),
  rindex: (self, given) => found(self, one(given), true),
  count: (self, given) => self.split(one(given)).length - 1 + (one(given) === "" ? 2 : 0),
  join: (self, given) =>
    bounded(
      iterate(given.positional[0] ?? [])
        .map(joined)
        .join(self),
    ),
  format: (self, given) => formatBraces(self, given),
  removeprefix: (self, given) => {
    const part = text(given, 0, "prefix");
    return self.startsWith(part) ? self.slice(part.length) : self;
  },
  removesuffix: (self, given) => {
    const part = text(given, 0, "suffix");
    return part !== "" && self.endsWith(part) ? self.slice(0, -part.length) : self;
  },
  partition: (self, given) => {
    const separator = text(given, 0, "sep");
    return parted(self, separator, self.indexOf(separator), false);
  },
  rpartition: (self, given) => {
    const separator = text(given, 0, "sep");
    return parted(self, separator, self.lastIndexOf(separator), true);
  },
  ljust: (self, given) => filled(self, given, 0),
  rjust: (self, given) => filled(self, given, 1),
  zfill: (self, given) => {
    const sign = /^[-+]/.exec(self)?.[0] ?? "";
    return (
      sign +
      self
        .slice(sign.length)
        .padStart(Math.min(count(given, 0, "width", 0), 10_000) - sign.length, "0")
    );
  },
  isspace: (self) => isSpace(self),
  isdigit: (self) => /^[\p{Nd}²³¹⁰⁴-⁹₀-₉]+$/u.test(self),
  isdecimal: (self) => /^\p{Nd}+$/u.test(self),
  isnumeric: (self) => /^\p{N}+$/u.test(self),
  isalpha: (self) => /^\p{L}+$/u.test(self),
  isalnum: (self) => /^[\p{L}\p{N}]+$/u.test(self),
  isupper: (self) => self === self.toUpperCase() && self !== self.toLowerCase(),
  islower: (self) => self === self.toLowerCase() && self !== self.toUpperCase(),
};

function joined(item: Value, index: number): string {
  if (typeof item === "string") return item;
  throw fault(`sequence item ${index}: expected str instance, ${typeName(item)} found`);
}

const LIST: Readonly<Record<string, Method<readonly Value[]>>> = {
  index: (self, given) => {
    const at = self.findIndex((item) => equal(item, given.positional[0] ?? null));
    if (at < 0) throw fault(`${textOf(given.positional[0] ?? null)} is not in list`);
    return at;
  },
  count: (self, given) => self.filter((item) => equal(item, given.positional[0] ?? null)).length,
  copy: (self) => [...self],
};

const DICT: Readonly<Record<string, Method<Map<Value, Value>>>> = {
  get: (self, given) =>
    present(
      self.get(hashable(argument(given, 0, "key") ?? null)),
      argument(given, 1, "default") ?? null,
    ),
  keys: (self) => [...self.keys()],
  values: (self) => [...self.values()],
  items: (self) => [...self].map((entry) => new PyTuple(entry)),
  copy: (self) => new Map(self),
};

/** Methods of Python that the sandbox of transformers forbids, for they change what a template was given. */
const FORBIDDEN: ReadonlySet<string> = new Set(
  "append extend insert pop remove sort reverse clear update setdefault popitem".split(" "),
);
/** All of Python's methods that are not built: what calls one is refused when the template is compiled. */
export const METHOD_GAPS: ReadonlySet<string> = new Set(
  "encode swapcase center expandtabs translate maketrans format_map isascii isidentifier isprintable istitle fromkeys decode".split(
    " ",
  ),
);

/** The method of a value, or undefined when it has none of that name. */
export function methodOf(value: Value, name: string): Callable | undefined {
  const bound = <Self extends Value>(
    methods: Readonly<Record<string, Method<Self>>>,
    self: Self,
  ): Callable | undefined => {
    const method = Object.hasOwn(methods, name) ? methods[name] : undefined;
    return method === undefined ? undefined : new Callable(name, (given) => method(self, given));
  };
  if (typeof value === "string") return bound(STRING, value);
  if ((Array.isArray(value) || value instanceof Map) && FORBIDDEN.has(name)) {
    if (
      Array.isArray(value) !== (name === "update" || name === "setdefault" || name === "popitem")
    ) {
      return new Callable(name, () => {
        throw fault(`access to attribute '${name}' of '${typeName(value)}' object is unsafe.`);
      });
    }
  }
  if (Array.isArray(value)) return bound(LIST as Readonly<Record<string, Method<Value[]>>>, value);
  if (value instanceof PyTuple && name !== "copy") {
    const method = Object.hasOwn(LIST, name) ? LIST[name] : undefined;
    return method && new Callable(name, (given) => method(value.items, given));
  }
  if (value instanceof Map) return bound(DICT, value);
  return undefined;
}
