import { argument } from "./methods.ts";
import { binary } from "./operators.ts";
import { attributeOf, itemOf } from "./attributes.ts";
import { type Test, TESTS } from "./tests.ts";
import { textOf } from "./text-of.ts";
import {
  type Arguments,
  Lazy,
  PyTuple,
  Undefined,
  type Value,
  compare,
  equal,
  fault,
  given as present,
  iterate,
  truth,
  typeName,
} from "./values.ts";

export type Filter = (value: Value, given: Arguments) => Value;

/** A value by a path such as `function.name` or `0.role`. */
function byPath(value: Value, path: Value): Value {
  const parts: Value[] =
    typeof path === "string"
      ? path.split(".").map((part) => (/^\d+$/.test(part) ? Number(part) : part))
      : [path];
  return parts.reduce<Value>((inner, part) => itemOf(inner, part), value);
}

/** The text that orders and compares: without case unless told otherwise. */
function caseless(value: Value, caseSensitive: boolean): Value {
  return typeof value === "string" && !caseSensitive ? value.toLowerCase() : value;
}

function sorted(value: Value, given: Arguments): Value {
  const reverse = truth(argument(given, 0, "reverse") ?? false);
  const caseSensitive = truth(argument(given, 1, "case_sensitive") ?? false);
  const paths = argument(given, 2, "attribute") ?? null;
  const keysOf = (item: Value): Value =>
    paths === null
      ? caseless(item, caseSensitive)
      : new PyTuple(
          textOf(paths)
            .split(",")
            .map((path) => caseless(byPath(item, path), caseSensitive)),
        );
  const order = (one: Value, other: Value): number => compare(keysOf(one), keysOf(other));
  return [...iterate(value)].toSorted(reverse ? (one, other) => order(other, one) : order);
}

function mapped(
  value: Value,
  given: Arguments,
  filterNamed: (name: string) => Filter | undefined,
): Value {
  const path = given.keywords.get("attribute");
  if (path !== undefined && given.positional.length === 0) {
    const otherwise = given.keywords.get("default");
    return new Lazy(
      iterate(value).map((item) => {
        const found = byPath(item, path);
        return found instanceof Undefined && otherwise !== undefined ? otherwise : found;
      }),
    );
  }
  const [name, ...positional] = given.positional;
  const filter = typeof name === "string" ? filterNamed(name) : undefined;
  if (filter === undefined) throw fault("map needs the name of a filter, or attribute=");
  const inner = { positional, keywords: given.keywords };
  return new Lazy(iterate(value).map((item) => filter(item, inner)));
}

/** `select`, `reject` and their variants that look at an attribute. */
function selecting(wanted: boolean, byAttribute: boolean): Filter {
  return (value, { positional }) => {
    const [path, rest] = byAttribute
      ? [positional[0], positional.slice(1)]
      : [undefined, positional];
    if (byAttribute && path === undefined) throw fault("an attribute is needed");
    const [name, ...given] = rest;
    const test = name === undefined ? truth : testNamed(name);
    return new Lazy(
      iterate(value).filter(
        (item) => test(path === undefined ? item : byPath(item, path), ...given) === wanted,
      ),
    );
  };
}

function testNamed(name: Value): Test {
  const test = typeof name === "string" ? TESTS.get(name) : undefined;
  if (test === undefined) throw fault(`no test named ${textOf(name)}`);
  return test;
}

function unique(value: Value, given: Arguments): Value {
  const caseSensitive = truth(argument(given, 0, "case_sensitive") ?? false);
  const path = argument(given, 1, "attribute") ?? null;
  const seen: Value[] = [];
  return new Lazy(
    iterate(value).filter((item) => {
      const key = caseless(path === null ? item : byPath(item, path), caseSensitive);
      if (seen.some((known) => equal(known, key))) return false;
      seen.push(key);
      return true;
    }),
  );
}

function join(value: Value, given: Arguments): Value {
  const path = argument(given, 1, "attribute") ?? null;
  const items = iterate(value).map((item) => textOf(path === null ? item : byPath(item, path)));
  return items.join(textOf(argument(given, 0, "d") ?? ""));
}

function extreme(sign: number): Filter {
  return (value, given) => {
    const caseSensitive = truth(argument(given, 0, "case_sensitive") ?? false);
    const path = argument(given, 1, "attribute") ?? null;
    const keyOf = (item: Value): Value =>
      caseless(path === null ? item : byPath(item, path), caseSensitive);
    const items = iterate(value);
    if (items.length === 0) return new Undefined("No aggregated item, sequence was empty.");
    return items.reduce((best, item) =>
      compare(keyOf(item), keyOf(best)) * sign > 0 ? item : best,
    );
  };
}

function dictSorted(value: Value, given: Arguments): Value {
  if (!(value instanceof Map)) throw fault(`'${typeName(value)}' object has no attribute 'items'`);
  const caseSensitive = truth(argument(given, 0, "case_sensitive") ?? false);
  const at = (argument(given, 1, "by") ?? "key") === "value" ? 1 : 0;
  const sign = truth(argument(given, 2, "reverse") ?? false) ? -1 : 1;
  return [...value]
    .toSorted(
      (one, other) =>
        sign * compare(caseless(one[at], caseSensitive), caseless(other[at], caseSensitive)),
    )
    .map((entry) => new PyTuple(entry));
}

function grouped(value: Value, given: Arguments): Value {
  const path = argument(given, 0, "attribute") ?? null;
  if (path === null) throw fault("groupby needs an attribute");
  const caseSensitive = truth(argument(given, 2, "case_sensitive") ?? false);
  const otherwise = argument(given, 1, "default");
  const keyOf = (item: Value): Value => {
    const found = byPath(item, path);
    return found instanceof Undefined && otherwise !== undefined ? otherwise : found;
  };
  const folded = (item: Value): Value => caseless(keyOf(item), caseSensitive);
  const groups: Value[][] = [];
  for (const item of [...iterate(value)].toSorted((one, other) =>
    compare(folded(one), folded(other)),
  )) {
    const last = groups.at(-1);
    if (last !== undefined && equal(folded(last[0]!), folded(item))) last.push(item);
    else groups.push([item]);
  }
  return groups.map((items) => new PyTuple([keyOf(items[0]!), items]));
}

function batched(value: Value, given: Arguments): Value {
  const size = argument(given, 0, "linecount");
  if (typeof size !== "number" || size < 1) throw fault("batch needs a count");
  const fill = argument(given, 1, "fill_with") ?? null;
  const items = iterate(value);
  const batches: Value[] = [];
  for (let at = 0; at < items.length; at += size) {
    const batch = items.slice(at, at + size);
    if (fill !== null) while (batch.length < size) batch.push(fill);
    batches.push(batch);
  }
  return new Lazy(batches);
}

function items(value: Value): Value {
  if (value instanceof Undefined) return new Lazy([]);
  if (value instanceof Map) return new Lazy([...value].map((entry) => new PyTuple(entry)));
  throw fault("Can only get item pairs from a mapping.");
}

function reversed(value: Value): Value {
  if (typeof value === "string") return Array.from(value).toReversed().join("");
  return new Lazy([...iterate(value)].toReversed());
}

/** Filters that take lists, dicts and generators. `filterNamed`: what `map` may name. */
export function sequenceFilters(
  filterNamed: (name: string) => Filter | undefined,
): readonly (readonly [string, Filter])[] {
  const missing = (): Value => new Undefined("No first item, sequence was empty.");
  return [
    ["list", (value) => [...iterate(value)]],
    ["first", (value) => present(iterate(value)[0], missing())],
    [
      "last",
      (value) => {
        if (value instanceof Lazy) throw fault("'generator' object is not reversible");
        const all = iterate(value);
        return all.length === 0 ? missing() : all[all.length - 1]!;
      },
    ],
    ["join", join],
    ["reverse", reversed],
    ["sort", sorted],
    ["map", (value, given) => mapped(value, given, filterNamed)],
    ["select", selecting(true, false)],
    ["reject", selecting(false, false)],
    ["selectattr", selecting(true, true)],
    ["rejectattr", selecting(false, true)],
    ["unique", unique],
    ["min", extreme(-1)],
    ["max", extreme(1)],
    ["dictsort", dictSorted],
    ["groupby", grouped],
    ["batch", batched],
    ["items", items],
    [
      "sum",
      (value, given) => {
        const path = argument(given, 0, "attribute") ?? null;
        const start = argument(given, 1, "start") ?? 0;
        return iterate(value).reduce<Value>(
          (sum, item) => binary("+", sum, path === null ? item : byPath(item, path)),
          start,
        );
      },
    ],
    ["attr", (value, given) => attributeOf(value, textOf(given.positional[0] ?? ""), true)],
  ];
}
