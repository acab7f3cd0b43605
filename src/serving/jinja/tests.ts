import { compares } from "./operators.ts";
import {
  PyFloat,
  PyTuple,
  type Value,
  Callable,
  Lazy,
  LoopState,
  Undefined,
  defined,
  fault,
  numeric,
  typeName,
} from "./values.ts";

export type Test = (value: Value, ...given: readonly Value[]) => boolean;

const comparison =
  (operator: string): Test =>
  (value, other = null) =>
    compares(operator, value, other);

const integer = (value: Value): number => {
  const number = numeric(defined(value));
  if (number !== undefined) return number;
  throw fault(`a number is needed, got '${typeName(value)}'`);
};

const isSequence = (value: Value): boolean =>
  typeof value === "string" ||
  Array.isArray(value) ||
  value instanceof PyTuple ||
  value instanceof Map;

/** Jinja's tests by name. A dict counts as a sequence there, and what does not exist as iterable. */
export const TESTS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ["boolean", (value) => typeof value === "boolean"],
  ["callable", (value) => value instanceof Callable],
  ["defined", (value) => !(value instanceof Undefined)],
  ["undefined", (value) => value instanceof Undefined],
  ["none", (value) => value === null],
  ["true", (value) => value === true],
  ["false", (value) => value === false],
  ["string", (value) => typeof value === "string"],
  ["number", (value) => numeric(value) !== undefined],
  ["integer", (value) => typeof value === "number"],
  ["float", (value) => value instanceof PyFloat],
  ["mapping", (value) => value instanceof Map],
  ["sequence", isSequence],
  [
    "iterable",
    (value) =>
      isSequence(value) ||
      value instanceof Lazy ||
      value instanceof Undefined ||
      value instanceof LoopState,
  ],
  ["odd", (value) => Math.abs(integer(value)) % 2 === 1],
  ["even", (value) => integer(value) % 2 === 0],
  ["divisibleby", (value, by = null) => integer(value) % integer(by) === 0],
  ["lower", (value) => text(value) === text(value).toLowerCase() && hasCase(value)],
  ["upper", (value) => text(value) === text(value).toUpperCase() && hasCase(value)],
  ["in", (value, container = null) => compares("in", value, container)],
  ["sameas", (value, other = null) => value === other],
  ["filter", (value) => typeof value === "string" && KNOWN.filters.has(value)],
  ["test", (value) => typeof value === "string" && TESTS.has(value)],
  ...["eq", "equalto", "=="].map((name): [string, Test] => [name, comparison("==")]),
  ["ne", comparison("!=")],
  ...["lt", "lessthan"].map((name): [string, Test] => [name, comparison("<")]),
  ["le", comparison("<=")],
  ...["gt", "greaterthan"].map((name): [string, Test] => [name, comparison(">")]),
  ["ge", comparison(">=")],
]);

/** Names of filters, for the test `filter`; filled by their table. */
export const KNOWN = { filters: new Set<string>() };

function text(value: Value): string {
  return typeof value === "string" ? value : "";
}

function hasCase(value: Value): boolean {
  return text(value).toLowerCase() !== text(value).toUpperCase();
}
