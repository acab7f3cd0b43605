import { isNode, lineAt, nodesOf, syntaxTree } from "../source-file.ts";
import type { Breach, Rule, SourceFile, SyntaxNode } from "../source-file.ts";

/** One breach for each node that `problemOf` objects to. */
function objections(
  files: readonly SourceFile[],
  problemOf: (node: SyntaxNode) => string | undefined,
): Breach[] {
  return files.flatMap((file) =>
    [...nodesOf(syntaxTree(file))].flatMap((node) => {
      const problem = problemOf(node);
      return problem === undefined
        ? []
        : [{ path: file.path, line: lineAt(file.text, node.start), problem }];
    }),
  );
}

/** The type `any` appears nowhere. */
export const noAny: Rule = (files) =>
  objections(files, (node) =>
    node.type === "TSAnyKeyword"
      ? "`any` switches the compiler off: name the type, or use unknown"
      : undefined,
  );

const OUTSIDE = new Map([
  ["Date.now", "the clock"],
  ["performance.now", "the clock"],
  ["process.hrtime", "the clock"],
  ["Math.random", "randomness"],
  ["crypto.randomUUID", "randomness"],
]);
const PURE = /^src\/(?:actors|connector|blocks|keys)\//;
const HOSTS = "src/actors/hosts/";

export function isPure(path: string): boolean {
  return PURE.test(path) && !path.startsWith(HOSTS);
}

/** Clock, randomness and log come in from outside, so that the simulator can drive the same code. */
export const outsideWorld: Rule = (files) =>
  objections(
    files.filter((file) => isPure(file.path)),
    (node) => {
      if (node.type === "NewExpression" && nameOf(node["callee"]) === "Date") {
        const given = node["arguments"];
        return Array.isArray(given) && given.length === 0
          ? "new Date() reads the clock, which comes in from outside"
          : undefined;
      }
      if (node.type !== "MemberExpression") return undefined;
      const object = nameOf(node["object"]);
      if (object === "console") return "console: the log comes in from outside";
      const member = `${object}.${nameOf(node["property"])}`;
      const what = OUTSIDE.get(member.replace(/^globalThis\./, ""));
      return what === undefined ? undefined : `${member}: ${what} comes in from outside`;
    },
  );

/** Dotted name of an identifier or of a chain of members, else "". */
function nameOf(node: unknown): string {
  if (!isNode(node)) return "";
  if (node.type === "Identifier") return String(node["name"]);
  if (node.type === "Literal" && typeof node["value"] === "string") return node["value"];
  if (node.type === "MemberExpression")
    return `${nameOf(node["object"])}.${nameOf(node["property"])}`.replace(/^globalThis\./, "");
  return "";
}

const TEST_FUNCTIONS = new Set(["test", "it", "describe", "suite", "bench"]);
const LEFT_OUT = new Set(["skip", "only", "todo", "skipIf", "runIf", "fails"]);

/** Every test runs, always: nothing is skipped, left for later, expected to fail, or run alone. */
export const everyTestRuns: Rule = (files) =>
  objections(files, (node) => {
    if (node.type === "CallExpression" && /^x(?:it|test|describe)$/.test(nameOf(node["callee"]))) {
      return `${nameOf(node["callee"])} skips a test`;
    }
    if (node.type !== "MemberExpression") return undefined;
    const [outer = "", ...modifiers] = nameOf(node).split(".");
    const modifier = modifiers.at(-1) ?? "";
    return TEST_FUNCTIONS.has(outer) && LEFT_OUT.has(modifier)
      ? `${outer}.${modifier}: every test runs, always`
      : undefined;
  });

const ATOMIC =
  /\bAtomics\.(?:load|store|add|sub|or|and|xor|exchange|compareExchange|wait|notify)\b/;
/** Lines above a call, and the one below, in which its comment may stand. */
const PAIR_LINES = 6;

/** Whoever reads an Atomics call is told which call of which other side it pairs with. */
export const atomicsArePaired: Rule = (files) =>
  files.flatMap((file) => {
    const lines = file.text.split("\n");
    return lines.flatMap((line, index): Breach[] => {
      if (isComment(line) || !ATOMIC.test(line)) return [];
      const near = lines.slice(Math.max(0, index - PAIR_LINES), index + 2);
      if (near.some((text) => isComment(text) && /\bpairs?\b/i.test(text))) return [];
      const problem = "Atomics without a comment that says what it pairs with";
      return [{ path: file.path, line: index + 1, problem }];
    });
  });

function isComment(line: string): boolean {
  return /^\s*(?:\/\/|\/?\*)/.test(line);
}
