import type { Body, Expression, Statement, Target } from "./nodes.ts";

/** Whether a template takes a message's content as a text or as OpenAI's list of parts. */
export type ContentFormat = "string" | "openai";

type Loop = Extract<Statement, { type: "for" }>;
type Macro = Extract<Statement, { type: "macro" }>;

/** As vLLM finds it out: a template that loops over a message's content takes the list of parts. */
export function contentFormatOf(body: Body): ContentFormat {
  const found: Found = { loops: [], sets: [], macros: [], calls: [] };
  collect(body, found);
  const messageNames = new Set<string>();
  const conversations = aliasesOf("messages", found);
  for (const loop of found.loops) {
    if (!conversations.some((name) => reads(loop.iterable, name))) continue;
    if (loop.target.type !== "name") return "string";
    messageNames.add(loop.target.name);
  }
  const isContent = (node: Expression): boolean =>
    [...messageNames].some((name) => reads(node, name, "content"));
  const inMacros = new Set<Loop>();
  const byParameter = new Set<Loop>();
  for (const macro of found.macros) {
    const given = contentParameters(macro, found, isContent);
    const inner: Found = { loops: [], sets: [], macros: [], calls: [] };
    collect(macro.body, inner);
    for (const loop of inner.loops) {
      inMacros.add(loop);
      if (loop.iterable.type === "name" && given.has(loop.iterable.name)) byParameter.add(loop);
    }
  }
  const overContent = found.loops.find((loop) => {
    if (isContent(loop.iterable) || byParameter.has(loop)) return true;
    const { iterable } = loop;
    return !inMacros.has(loop) && iterable.type === "name" && iterable.name === "content";
  });
  return overContent?.target.type === "name" ? "openai" : "string";
}

interface Found {
  readonly loops: Loop[];
  readonly sets: Extract<Statement, { type: "set" }>[];
  readonly macros: Macro[];
  readonly calls: Extract<Expression, { type: "call" }>[];
}

function collect(node: unknown, found: Found): void {
  if (Array.isArray(node)) {
    for (const inner of node) collect(inner, found);
    return;
  }
  if (node === null || typeof node !== "object") return;
  const known = node as Statement | Expression;
  if (known.type === "for") found.loops.push(known);
  else if (known.type === "set") found.sets.push(known);
  else if (known.type === "macro") found.macros.push(known);
  else if (known.type === "call") found.calls.push(known);
  for (const inner of Object.values(node)) collect(inner, found);
}

/** The names under which a variable, or a part of it, goes on; `ns.name` for one in a namespace. */
function aliasesOf(name: string, { sets }: Found): readonly string[] {
  const names = [name];
  // The list grows while it is gone through; a name comes once.
  for (const known of names) {
    for (const { target, value } of sets) {
      for (const alias of aliasesIn(target, value, known)) {
        if (!names.includes(alias)) names.push(alias);
      }
    }
  }
  return names;
}

function aliasesIn(target: Target, value: Expression, known: string): readonly string[] {
  if (target.type === "namespace") {
    return reads(value, known) ? [`${target.name}.${target.attribute}`] : [];
  }
  if (target.type !== "name") return [];
  if (reads(value, known)) return [target.name];
  const isSpace =
    value.type === "call" && value.callee.type === "name" && value.callee.name === "namespace";
  if (!isSpace) return [];
  return value.given.keywords
    .filter(([, part]) => reads(part, known))
    .map(([key]) => `${target.name}.${key}`);
}

/** Is this the variable, or with `key` its item of that name, perhaps through filters, tests and slices? */
function reads(node: Expression, name: string, key?: string): boolean {
  if (node.type === "filter" || node.type === "test") return reads(node.operand, name, key);
  if (node.type === "slice") return reads(node.object, name, key);
  if (key === undefined) return isVariable(node, name);
  if (node.type === "attribute") return node.name === key && isVariable(node.object, name);
  if (node.type !== "item" || node.index.type !== "const") return false;
  return node.index.value === key && isVariable(node.object, name);
}

function isVariable(node: Expression, name: string): boolean {
  if (node.type === "name") return node.name === name;
  const dot = name.lastIndexOf(".");
  if (node.type !== "attribute" || dot < 0) return false;
  return node.name === name.slice(dot + 1) && isVariable(node.object, name.slice(0, dot));
}

function contentParameters(
  macro: Macro,
  { calls }: Found,
  isContent: (node: Expression) => boolean,
): ReadonlySet<string> {
  const names = new Set<string>();
  for (const { callee, given } of calls) {
    if (callee.type !== "name" || callee.name !== macro.name) continue;
    given.positional.forEach((argument, index) => {
      const parameter = macro.parameters[index];
      if (parameter !== undefined && isContent(argument)) names.add(parameter.name);
    });
    for (const [key, argument] of given.keywords) {
      if (macro.parameters.some(({ name }) => name === key) && isContent(argument)) names.add(key);
    }
  }
  return names;
}
