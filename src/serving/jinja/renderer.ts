import { Evaluator } from "./evaluator.ts";
import type { Meter } from "./meter.ts";
import type { Body, Parameter, Statement, Target } from "./nodes.ts";
import { Scope } from "./scope.ts";
import { textOf } from "./text-of.ts";
import {
  type Arguments,
  Callable,
  LoopState,
  Namespace,
  PyTuple,
  Undefined,
  type Value,
  equal,
  fault,
  iterate,
  truth,
} from "./values.ts";

/** How a body ended: at its end, or by a statement that ends or skips the loop around it. */
type Ending = "end" | "break" | "continue";

/** Writes what a template gives. Throws TemplateFault and TemplateRefusal. */
export class Renderer {
  readonly #meter: Meter;
  readonly #evaluator: Evaluator;
  #output = "";

  constructor(meter: Meter) {
    this.#meter = meter;
    this.#evaluator = new Evaluator(meter);
  }

  render(body: Body, scope: Scope): string {
    return this.#captured(body, scope);
  }

  #captured(body: Body, scope: Scope): string {
    const before = this.#output;
    this.#output = "";
    this.#body(body, scope);
    const text = this.#output;
    this.#output = before;
    return text;
  }

  #body(body: Body, scope: Scope): Ending {
    for (const statement of body) {
      this.#meter.step();
      const ending = this.#statement(statement, scope);
      if (ending !== "end") return ending;
    }
    return "end";
  }

  #write(text: string): void {
    this.#meter.step(text.length);
    this.#output += text;
    this.#meter.output(this.#output.length);
  }

  #statement(node: Statement, scope: Scope): Ending {
    switch (node.type) {
      case "text":
        this.#write(node.text);
        return "end";
      case "output":
        this.#write(textOf(this.#evaluator.value(node.value, scope)));
        return "end";
      case "if":
        return this.#body(
          truth(this.#evaluator.value(node.test, scope)) ? node.body : node.otherwise,
          scope,
        );
      case "for":
        this.#loop(node, scope);
        return "end";
      case "set":
        this.#assign(node.target, this.#evaluator.value(node.value, scope), scope);
        return "end";
      case "set_block": {
        const text = this.#captured(node.body, new Scope(scope));
        this.#assign(node.target, this.#evaluator.filtered(text, node.filters, scope), scope);
        return "end";
      }
      case "macro":
        scope.set(node.name, this.#macro(node.name, node.parameters, node.body, scope));
        return "end";
      case "call_block": {
        const inner = new Scope(scope);
        const caller = this.#macro("caller", node.parameters, node.body, scope);
        inner.set("caller", caller);
        this.#write(this.#called(node, caller, inner));
        return "end";
      }
      case "filter_block": {
        const text = this.#captured(node.body, new Scope(scope));
        this.#write(textOf(this.#evaluator.filtered(text, node.filters, scope)));
        return "end";
      }
      case "with": {
        const inner = new Scope(scope);
        for (const [target, value] of node.assignments) {
          this.#assign(target, this.#evaluator.value(value, scope), inner);
        }
        return this.#body(node.body, inner);
      }
      case "scope":
        return this.#body(node.body, new Scope(scope));
      default:
        return node.type;
    }
  }

  #loop(node: Extract<Statement, { type: "for" }>, scope: Scope): void {
    const all = iterate(this.#evaluator.value(node.iterable, scope));
    this.#meter.step(all.length << 6);
    const { test } = node;
    const items =
      test === null
        ? all
        : all.filter((item) => {
            const inner = new Scope(scope);
            this.#assign(node.target, item, inner);
            return truth(this.#evaluator.value(test, inner));
          });
    const outer = scope.get("loop");
    const depth = outer instanceof LoopState ? Number(outer.attributes.get("depth")) + 1 : 1;
    const loop = new LoopState();
    const changed: { last: readonly Value[] | null } = { last: null };
    for (let index = 0; index < items.length; index++) {
      this.#meter.step();
      describeLoop(loop, items, index, depth, changed);
      const inner = new Scope(scope);
      inner.set("loop", loop);
      this.#assign(node.target, items[index]!, inner);
      if (this.#body(node.body, inner) === "break") break;
    }
    if (items.length === 0) this.#body(node.otherwise, new Scope(scope));
  }

  #assign(target: Target, value: Value, scope: Scope): void {
    if (target.type === "name") scope.set(target.name, value);
    else if (target.type === "namespace") {
      const space = scope.get(target.name);
      if (!(space instanceof Namespace)) {
        throw fault("cannot assign attribute on non-namespace object");
      }
      setAttribute(space, target.attribute, value);
    } else {
      const items = iterate(value);
      if (items.length !== target.items.length) {
        const problem = items.length > target.items.length ? "too many" : "not enough";
        throw fault(`${problem} values to unpack (expected ${target.items.length})`);
      }
      target.items.forEach((inner, index) => this.#assign(inner, items[index]!, scope));
    }
  }

  #called(
    node: Extract<Statement, { type: "call_block" }>,
    caller: Callable,
    scope: Scope,
  ): string {
    if (node.call.type !== "call") throw fault("a call block needs a call");
    const callee = this.#evaluator.value(node.call.callee, scope);
    if (!(callee instanceof Callable)) throw fault("a call block calls no macro");
    const given = this.#evaluator.given(node.call.given, scope);
    return textOf(
      callee.call({ ...given, keywords: new Map([...given.keywords, ["caller", caller]]) }),
    );
  }

  #macro(name: string, parameters: readonly Parameter[], body: Body, outer: Scope): Callable {
    return new Callable(name, (given) => {
      this.#meter.enter();
      const scope = new Scope(outer);
      this.#bind(name, parameters, given, scope);
      const text = this.#captured(body, scope);
      this.#meter.leave();
      return text;
    });
  }

  #bind(name: string, parameters: readonly Parameter[], given: Arguments, scope: Scope): void {
    const names = new Set(parameters.map((parameter) => parameter.name));
    const extra = [...given.keywords].filter(([key]) => !names.has(key) && key !== "caller");
    scope.set("varargs", new PyTuple(given.positional.slice(parameters.length)));
    scope.set("kwargs", new Map<Value, Value>(extra));
    scope.set("caller", given.keywords.get("caller") ?? new Undefined("No caller defined"));
    parameters.forEach((parameter, index) => {
      const value =
        index < given.positional.length
          ? given.positional[index]
          : given.keywords.get(parameter.name);
      if (value !== undefined) scope.set(parameter.name, value);
      else if (parameter.otherwise !== null) {
        scope.set(parameter.name, this.#evaluator.value(parameter.otherwise, scope));
      } else {
        scope.set(
          parameter.name,
          new Undefined(`parameter '${parameter.name}' of ${name} was not provided`),
        );
      }
    });
  }
}

/** Refuses what transformers' namespace refuses. */
export function setAttribute(space: Namespace, name: string, value: Value): void {
  if (name.startsWith("_")) {
    throw fault(
      `Chat templates cannot store underscore-prefixed attributes on a namespace, but got '${name}'.`,
    );
  }
  space.attributes.set(name, value);
}

function describeLoop(
  loop: LoopState,
  items: readonly Value[],
  index: number,
  depth: number,
  changed: { last: readonly Value[] | null },
): void {
  const left = items.length - index;
  const none = (which: string): Undefined => new Undefined(`there is no ${which} item`);
  const cycle = new Callable("cycle", ({ positional }) => {
    if (positional.length === 0) throw fault("no items for cycling given");
    return positional[index % positional.length]!;
  });
  const hasChanged = new Callable("changed", ({ positional }) => {
    const same =
      changed.last !== null &&
      changed.last.length === positional.length &&
      positional.every((value, at) => equal(value, changed.last![at]!));
    changed.last = positional;
    return !same;
  });
  const facts: readonly (readonly [string, Value])[] = [
    ["index", index + 1],
    ["index0", index],
    ["revindex", left],
    ["revindex0", left - 1],
    ["first", index === 0],
    ["last", left === 1],
    ["length", items.length],
    ["previtem", index > 0 ? items[index - 1]! : none("previous")],
    ["nextitem", left > 1 ? items[index + 1]! : none("next")],
    ["depth", depth],
    ["depth0", depth - 1],
    ["cycle", cycle],
    ["changed", hasChanged],
  ];
  for (const [name, value] of facts) loop.attributes.set(name, value);
}
