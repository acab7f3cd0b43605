import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { parseAst } from "vitest/node";

/** Root of the checkout. */
export const root = join(import.meta.dirname, "..", "..");

/** One file of the checkout; `path` is relative to its root, with forward slashes. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

/** A breach of a rule. `line` counts from 1. */
export interface Breach {
  readonly path: string;
  readonly line: number;
  readonly problem: string;
}

export type Rule = (files: readonly SourceFile[]) => Breach[];

/** A node of the syntax tree: ESTree with TypeScript's additions, offsets in UTF-16 units. */
export interface SyntaxNode {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

const trees = new WeakMap<SourceFile, SyntaxNode>();

export function syntaxTree(file: SourceFile): SyntaxNode {
  let tree = trees.get(file);
  if (tree === undefined) {
    const lang = file.path.endsWith(".ts") ? "ts" : "js";
    tree = parseAst(file.text, { lang }) as unknown as SyntaxNode;
    trees.set(file, tree);
  }
  return tree;
}

export function isNode(value: unknown): value is SyntaxNode {
  return (
    typeof value === "object" && value !== null && typeof (value as SyntaxNode).type === "string"
  );
}

/** Every node below and with `node`, outer ones first. */
export function* nodesOf(node: SyntaxNode): Generator<SyntaxNode> {
  yield node;
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value])
      if (isNode(child)) yield* nodesOf(child);
  }
}

export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split("\n").length;
}

/** Files below `folder` of the checkout whose names end in one of `endings`. */
export function readFiles(folder: string, endings: readonly string[]): SourceFile[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) return GENERATED.has(entry.name) ? [] : readFiles(path, endings);
    if (!entry.isFile() || !endings.some((ending) => entry.name.endsWith(ending))) return [];
    return [{ path, text: readFileSync(join(root, path), "utf8") }];
  });
}

/** Folders that hold nothing written by hand. */
const GENERATED = new Set([
  "node_modules",
  "dist",
  "build",
  "prebuilds",
  "coverage",
  ".git",
  ".cache",
  ".venv",
]);
