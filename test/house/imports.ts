import { posix } from "node:path";

import { isNode, lineAt, nodesOf, syntaxTree } from "./source-file.ts";
import type { SourceFile, SyntaxNode } from "./source-file.ts";

/** One relative import, export-from, import() or import type; `target` is a path from the root of the checkout. */
export interface Import {
  readonly target: string;
  readonly line: number;
  /** The whole statement is erased by the compiler: nothing of it is there at run time. */
  readonly typeOnly: boolean;
  /** An import(): loaded when the code comes to it, not with the file. */
  readonly lazy: boolean;
}

const IMPORTING = new Set([
  "ImportDeclaration",
  "ExportNamedDeclaration",
  "ExportAllDeclaration",
  "ImportExpression",
  "TSImportType",
]);

/** The relative imports of a file, type imports too: a type also ties a lower layer to an upper one. */
export function importsOf(file: SourceFile): Import[] {
  const imports: Import[] = [];
  for (const node of nodesOf(syntaxTree(file))) {
    const specifier = IMPORTING.has(node.type) ? specifierOf(node) : undefined;
    if (specifier === undefined || !specifier.startsWith(".")) continue;
    const target = posix.join(posix.dirname(file.path), specifier);
    const typeOnly =
      node.type === "TSImportType" ||
      node["importKind"] === "type" ||
      node["exportKind"] === "type";
    const lazy = node.type === "ImportExpression";
    imports.push({ target, line: lineAt(file.text, node.start), typeOnly, lazy });
  }
  return imports;
}

function specifierOf(node: SyntaxNode): string | undefined {
  const source = isNode(node["source"]) ? node["source"] : node["argument"];
  if (!isNode(source)) return undefined;
  const literal = isNode(source["literal"]) ? source["literal"] : source;
  return typeof literal["value"] === "string" ? literal["value"] : undefined;
}
