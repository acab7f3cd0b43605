import { TemplateFault } from "./template-errors.ts";

/** What a template computes with, by Python's types. Integers are numbers, floats are PyFloat; dicts are Maps. */
export type Value =
  | string
  | number
  | boolean
  | null
  | PyFloat
  | PyTuple
  | Value[]
  | Map<Value, Value>
  | Undefined
  | Lazy
  | Namespace
  | Callable
  | LoopState;

export class PyFloat {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

export class PyTuple {
  readonly items: readonly Value[];
  constructor(items: readonly Value[]) {
    this.items = items;
  }
}

/** A name, attribute or item that does not exist: printed as nothing, and an error where it is used. */
export class Undefined {
  readonly problem: string;
  constructor(problem: string) {
    this.problem = problem;
  }
}

/** A generator: what `map` and `select` give. True whatever it holds, without length, read once. */
export class Lazy {
  #items: readonly Value[];
  constructor(items: readonly Value[]) {
    this.#items = items;
  }
  take(): readonly Value[] {
    const items = this.#items;
    this.#items = [];
    return items;
  }
}

export class Namespace {
  readonly attributes = new Map<string, Value>();
}

/** The variable `loop`. */
export class LoopState {
  readonly attributes = new Map<string, Value>();
}

export interface Arguments {
  readonly positional: readonly Value[];
  readonly keywords: ReadonlyMap<string, Value>;
}

/** A function, method or macro. */
export class Callable {
  readonly name: string;
  readonly call: (given: Arguments) => Value;
  constructor(name: string, call: (given: Arguments) => Value) {
    this.name = name;
    this.call = call;
  }
}

export function typeName(value: Value): string {
  if (value === null) return "NoneType";
  if (typeof value === "string") return "str";
  if (typeof value === "number") return "int";
  if (typeof value === "boolean") return "bool";
  if (value instanceof PyFloat) return "float";
  if (value instanceof PyTuple) return "tuple";
  if (Array.isArray(value)) return "list";
  if (value instanceof Map) return "dict";
  if (value instanceof Lazy) return "generator";
  return value.constructor.name;
}

export function fault(problem: string): TemplateFault {
  return new TemplateFault(problem);
}

/** Throws when the value does not exist, as every use of one does but for printing, looping and testing. */
export function defined(value: Value): Value {
  if (value instanceof Undefined) throw fault(value.problem);
  return value;
}

/** The value, None too; `otherwise` only when there is none at all. */
export function given(value: Value | undefined, otherwise: Value): Value {
  return value === undefined ? otherwise : value;
}

export function truth(value: Value): boolean {
  if (value === null || value instanceof Undefined) return false;
  if (typeof value === "string") return value !== "";
  if (typeof value === "number") return value !== 0;
  if (typeof value === "boolean") return value;
  if (value instanceof PyFloat) return value.value !== 0;
  if (value instanceof PyTuple) return value.items.length > 0;
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  return true;
}

/** The items that a loop goes over. */
export function iterate(value: Value): readonly Value[] {
  if (Array.isArray(value)) return value;
  if (value instanceof PyTuple) return value.items;
  if (typeof value === "string") return Array.from(value);
  if (value instanceof Map) return [...value.keys()];
  if (value instanceof Lazy) return value.take();
  if (value instanceof Undefined) return [];
  throw fault(`'${typeName(value)}' object is not iterable`);
}

export function lengthOf(value: Value): number {
  if (Array.isArray(value)) return value.length;
  if (value instanceof PyTuple) return value.items.length;
  if (typeof value === "string") return codePoints(value);
  if (value instanceof Map) return value.size;
  if (value instanceof Undefined) return 0;
  throw fault(`object of type '${typeName(value)}' has no len()`);
}

function codePoints(text: string): number {
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit >= 0xd800 && unit < 0xdc00 && at + 1 < text.length) at++;
    count++;
  }
  return count;
}

/** The number of an int, a bool or a float; undefined for other types. */
export function numeric(value: Value): number | undefined {
  if (typeof value === "number") return value;
  if (typeof value === "boolean") return value ? 1 : 0;
  return value instanceof PyFloat ? value.value : undefined;
}

export function equal(left: Value, right: Value): boolean {
  if (left === right) return true;
  const [one, other] = [numeric(left), numeric(right)];
  if (one !== undefined || other !== undefined) return one === other;
  if (left instanceof Undefined) return right instanceof Undefined;
  if (left instanceof PyTuple && right instanceof PyTuple)
    return equalItems(left.items, right.items);
  if (Array.isArray(left) && Array.isArray(right)) return equalItems(left, right);
  if (left instanceof Map && right instanceof Map) {
    if (left.size !== right.size) return false;
    return [...left].every(([key, value]) => right.has(key) && equal(value, right.get(key)!));
  }
  return false;
}

function equalItems(left: readonly Value[], right: readonly Value[]): boolean {
  return left.length === right.length && left.every((item, index) => equal(item, right[index]!));
}

/** Negative, zero or positive, as Python orders two values; throws for values without an order. */
export function compare(left: Value, right: Value): number {
  const [one, other] = [numeric(left), numeric(right)];
  if (one !== undefined && other !== undefined) return one - other;
  if (typeof left === "string" && typeof right === "string") return compareText(left, right);
  const sequences =
    (Array.isArray(left) && Array.isArray(right)) ||
    (left instanceof PyTuple && right instanceof PyTuple);
  if (sequences) {
    const [first, second] = [iterate(left), iterate(right)];
    const index = first.findIndex((item, at) => at >= second.length || !equal(item, second[at]!));
    if (index < 0 || index >= second.length) return first.length - second.length;
    return compare(first[index]!, second[index]!);
  }
  defined(left);
  defined(right);
  const types = `'${typeName(left)}' and '${typeName(right)}'`;
  throw fault(`'<' not supported between instances of ${types}`);
}

/** By code points. */
function compareText(left: string, right: string): number {
  const [one, other] = [Array.from(left), Array.from(right)];
  const index = one.findIndex((character, at) => character !== other[at]);
  if (index < 0 || index >= other.length) return one.length - other.length;
  return one[index]!.codePointAt(0)! - other[index]!.codePointAt(0)!;
}

export function contains(container: Value, item: Value): boolean {
  if (typeof container === "string") {
    if (typeof defined(item) === "string") return container.includes(item as string);
    throw fault(`'in <string>' requires string as left operand, not ${typeName(item)}`);
  }
  if (container instanceof Map) return container.has(hashable(item));
  return iterate(container).some((one) => equal(one, item));
}

/** A dict's key; Python refuses lists and dicts. */
export function hashable(value: Value): Value {
  if (Array.isArray(value) || value instanceof Map) {
    throw fault(`unhashable type: '${typeName(value)}'`);
  }
  return value;
}
