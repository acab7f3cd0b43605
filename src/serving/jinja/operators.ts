import { formatPercent } from "./percent-format.ts";
import {
  PyFloat,
  PyTuple,
  type Value,
  compare,
  contains,
  defined,
  equal,
  fault,
  numeric,
  typeName,
} from "./values.ts";

/** Characters of a text or items of a list that an operator may make. */
export const SIZE_MAX = 1 << 24;

export function binary(operator: string, left: Value, right: Value): Value {
  defined(left);
  defined(right);
  if (operator === "%" && typeof left === "string") return formatPercent(left, right);
  const [one, other] = [numeric(left), numeric(right)];
  if (one !== undefined && other !== undefined) {
    const isFloat = left instanceof PyFloat || right instanceof PyFloat;
    return arithmetic(operator, one, other, isFloat);
  }
  if (operator === "+") {
    if (typeof left === "string" && typeof right === "string") return bounded(left + right);
    if (Array.isArray(left) && Array.isArray(right)) return bounded([...left, ...right]);
    if (left instanceof PyTuple && right instanceof PyTuple) {
      return new PyTuple(bounded([...left.items, ...right.items]));
    }
  }
  if (operator === "*") {
    if (typeof right === "number") return repeated(left, right);
    if (typeof left === "number") return repeated(right, left);
  }
  const types = `'${typeName(left)}' and '${typeName(right)}'`;
  throw fault(`unsupported operand type(s) for ${operator}: ${types}`);
}

function arithmetic(operator: string, left: number, right: number, isFloat: boolean): Value {
  const result = (value: number): Value => (isFloat ? new PyFloat(value) : integer(value));
  if (right === 0 && (operator === "/" || operator === "//" || operator === "%")) {
    throw fault("division by zero");
  }
  switch (operator) {
    case "+":
      return result(left + right);
    case "-":
      return result(left - right);
    case "*":
      return result(left * right);
    case "/":
      return new PyFloat(left / right);
    case "//":
      return result(Math.floor(left / right));
    case "%": {
      const rest = left % right;
      return result(rest !== 0 && rest < 0 !== right < 0 ? rest + right : rest);
    }
    default: {
      const power = left ** right;
      if (!Number.isFinite(power)) throw fault("the result of ** is too large or no real number");
      return isFloat || right < 0 ? new PyFloat(power) : integer(power);
    }
  }
}

function integer(value: number): number {
  if (Number.isSafeInteger(value)) return value === 0 ? 0 : value;
  throw fault("an integer beyond 2^53");
}

function repeated(value: Value, count: number): Value {
  const times = Math.max(0, count);
  if (typeof value === "string") {
    if (value.length * times > SIZE_MAX) throw fault("a text becomes too long");
    return value.repeat(times);
  }
  const items = Array.isArray(value) ? value : value instanceof PyTuple ? value.items : undefined;
  if (items === undefined) {
    throw fault(`can't multiply sequence by non-int of type '${typeName(value)}'`);
  }
  if (items.length * times > SIZE_MAX) throw fault("a list becomes too long");
  const all = Array.from({ length: items.length * times }, (_, at) => items[at % items.length]!);
  return Array.isArray(value) ? all : new PyTuple(all);
}

export function bounded<Sized extends { readonly length: number }>(value: Sized): Sized {
  if (value.length <= SIZE_MAX) return value;
  throw fault("a text or a list becomes too long");
}

export function compares(operator: string, left: Value, right: Value): boolean {
  switch (operator) {
    case "==":
      return equal(left, right);
    case "!=":
      return !equal(left, right);
    case "in":
      return contains(right, left);
    case "not in":
      return !contains(right, left);
    case "<":
      return compare(left, right) < 0;
    case "<=":
      return compare(left, right) <= 0;
    case ">":
      return compare(left, right) > 0;
    default:
      return compare(left, right) >= 0;
  }
}

export function negative(value: Value): Value {
  const number = numeric(defined(value));
  if (number === undefined) throw fault(`bad operand type for unary -: '${typeName(value)}'`);
  return value instanceof PyFloat ? new PyFloat(-number) : integer(-number);
}

export function positive(value: Value): Value {
  const number = numeric(defined(value));
  if (number === undefined) throw fault(`bad operand type for unary +: '${typeName(value)}'`);
  return value instanceof PyFloat ? value : number;
}
