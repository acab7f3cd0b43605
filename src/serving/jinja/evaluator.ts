import { attributeOf, itemOf, sliceOf } from "./attributes.ts";
import { FILTERS } from "./filters.ts";
import type { Meter } from "./meter.ts";
import type { BlockFilter, Expression, Given } from "./nodes.ts";
import { binary, bounded, compares, negative, positive } from "./operators.ts";
import type { Scope } from "./scope.ts";
import { TemplateFault } from "./template-errors.ts";
import { TESTS } from "./tests.ts";
import { textOf } from "./text-of.ts";
import {
  type Arguments,
  Callable,
  PyFloat,
  PyTuple,
  Undefined,
  type Value,
  defined,
  fault,
  hashable,
  iterate,
  lengthOf,
  truth,
  typeName,
} from "./values.ts";

/** Computes expressions. Throws TemplateFault with the line. */
export class Evaluator {
  readonly #meter: Meter;

  constructor(meter: Meter) {
    this.#meter = meter;
  }

  value(node: Expression, scope: Scope): Value {
    this.#meter.step();
    switch (node.type) {
      case "const":
        return node.value;
      case "float":
        return new PyFloat(node.value);
      case "name":
        return scope.get(node.name) ?? this.#unknown(node.name, scope);
      case "list":
        return node.items.map((item) => this.value(item, scope));
      case "tuple":
        return new PyTuple(node.items.map((item) => this.value(item, scope)));
      case "concat":
        return this.#sized(node.items.map((item) => textOf(this.value(item, scope))).join(""));
      case "dict": {
        const entries = node.entries.map(([key, item]): [Value, Value] => [
          hashable(this.value(key, scope)),
          this.value(item, scope),
        ]);
        return new Map(entries);
      }
      case "attribute":
        return attributeOf(this.value(node.object, scope), node.name);
      case "item":
        return itemOf(this.value(node.object, scope), this.value(node.index, scope));
      case "slice": {
        const bounds = node.bounds.map((bound) => bound && this.value(bound, scope));
        return this.#sized(sliceOf(this.value(node.object, scope), bounds));
      }
      case "and": {
        const left = this.value(node.left, scope);
        return truth(left) ? this.value(node.right, scope) : left;
      }
      case "or": {
        const left = this.value(node.left, scope);
        return truth(left) ? left : this.value(node.right, scope);
      }
      case "condition":
        if (truth(this.value(node.test, scope))) return this.value(node.chosen, scope);
        return node.otherwise === null
          ? new Undefined("the inline if-expression is false and has no else")
          : this.value(node.otherwise, scope);
      case "not":
        return !truth(this.value(node.operand, scope));
      case "negative":
        return negative(this.value(node.operand, scope));
      case "positive":
        return positive(this.value(node.operand, scope));
      default:
        return this.#atLine(node.line, () => this.#fallible(node, scope));
    }
  }

  #unknown(name: string, scope: Scope): Value {
    return scope.get(name) === null ? null : new Undefined(`'${name}' is undefined`);
  }

  /** Puts the filters of a block on its output, the first one first. */
  filtered(text: string, filters: readonly BlockFilter[], scope: Scope): Value {
    return filters.reduce<Value>(
      (value, { name, given, line }) =>
        this.#atLine(line, () => this.#filter(name, value, given, scope)),
      text,
    );
  }

  given(given: Given, scope: Scope): Arguments {
    const positionalGiven = given.positional.map((argument) => this.value(argument, scope));
    if (given.spread !== null) positionalGiven.push(...iterate(this.value(given.spread, scope)));
    const keywords = new Map<string, Value>();
    for (const [name, value] of given.keywords) keywords.set(name, this.value(value, scope));
    if (given.keywordSpread !== null) {
      const spread = defined(this.value(given.keywordSpread, scope));
      if (!(spread instanceof Map)) throw fault("argument after ** must be a mapping");
      for (const [name, value] of spread) keywords.set(textOf(name), value);
    }
    return { positional: positionalGiven, keywords };
  }

  /** Runs with the line of a fault put before its text, where none stands there yet. */
  #atLine<Result>(line: number, run: () => Result): Result {
    try {
      return run();
    } catch (error) {
      if (!(error instanceof TemplateFault) || error.message.startsWith("line ")) throw error;
      throw new TemplateFault(`line ${line}: ${error.message}`, { cause: error });
    }
  }

  #fallible(node: Extract<Expression, { readonly line: number }>, scope: Scope): Value {
    switch (node.type) {
      case "binary": {
        const [left, right] = [this.value(node.left, scope), this.value(node.right, scope)];
        return this.#sized(binary(node.operator, left, right));
      }
      case "compare": {
        let left = this.value(node.first, scope);
        for (const [operator, operand] of node.rest) {
          const right = this.value(operand, scope);
          this.#meter.step(typeof right === "string" ? right.length : 0);
          if (!compares(operator, left, right)) return false;
          left = right;
        }
        return true;
      }
      case "filter":
        return this.#filter(node.name, this.value(node.operand, scope), node.given, scope);
      case "test": {
        const { positional: given } = this.given(node.given, scope);
        const test = TESTS.get(node.name);
        if (test === undefined) throw fault(`no test named '${node.name}'`);
        return test(this.value(node.operand, scope), ...given);
      }
      default: {
        const callee = this.value(node.callee, scope);
        if (!(defined(callee) instanceof Callable)) {
          throw fault(`'${typeName(callee)}' object is not callable`);
        }
        return this.#sized((callee as Callable).call(this.given(node.given, scope)));
      }
    }
  }

  #filter(name: string, value: Value, given: Given, scope: Scope): Value {
    const filter = FILTERS.get(name);
    if (filter === undefined) throw fault(`no filter named '${name}'`);
    this.#meter.step(costOf(value));
    return this.#sized(filter(value, this.given(given, scope)));
  }

  #sized(value: Value): Value {
    this.#meter.step(costOf(value));
    if (typeof value === "string" || Array.isArray(value)) bounded(value);
    return value;
  }
}

function costOf(value: Value): number {
  if (typeof value === "string") return value.length;
  return Array.isArray(value) || value instanceof PyTuple ? lengthOf(value) << 6 : 0;
}
