import { isNode, lineAt, nodesOf, syntaxTree } from "../source-file.ts";
import type { Breach, Rule, SourceFile, SyntaxNode } from "../source-file.ts";

/** Every member of the union `Message` is an interface with a doc comment that says who sends it to whom. */
export const messagesAreDocumented: Rule = (files) => files.flatMap(breachesOf);

function breachesOf(file: SourceFile): Breach[] {
  const nodes = [...nodesOf(syntaxTree(file))];
  const breach = (at: number, problem: string): Breach[] => [
    { path: file.path, line: lineAt(file.text, at), problem },
  ];
  const union = nodes.find(
    (node) => node.type === "TSTypeAliasDeclaration" && nameOf(node["id"]) === "Message",
  );
  const members = union === undefined ? [] : membersOf(union);
  if (members.length === 0) return breach(0, "holds no union type Message");
  return members.flatMap(({ name, at }) => {
    const declared = nodes.find(
      (node) => node.type === "TSInterfaceDeclaration" && nameOf(node["id"]) === name,
    );
    if (declared === undefined)
      return breach(at, `${name || "a member of Message"} is no interface of this file`);
    const problem = problemOf(name, docCommentBefore(file.text, declared.start));
    return problem === undefined ? [] : breach(declared.start, problem);
  });
}

function problemOf(name: string, comment: string): string | undefined {
  if (comment === "") return `${name} has no doc comment`;
  return comment.includes("->")
    ? undefined
    : `the doc comment of ${name} does not say who sends it to whom (A -> B)`;
}

function membersOf(union: SyntaxNode): { name: string; at: number }[] {
  const annotation = union["typeAnnotation"];
  const types =
    isNode(annotation) && Array.isArray(annotation["types"]) ? annotation["types"] : [annotation];
  return types.filter(isNode).map((type) => ({ name: nameOf(type["typeName"]), at: type.start }));
}

function nameOf(node: unknown): string {
  return isNode(node) && typeof node["name"] === "string" ? node["name"] : "";
}

/** The doc comment that ends right before `start`, also when `export` stands between; "" when there is none. */
function docCommentBefore(text: string, start: number): string {
  return /\/\*\*(?:(?!\*\/)[\s\S])*\*\/\s*(?:export\s+)?$/.exec(text.slice(0, start))?.[0] ?? "";
}
