import { posix } from "node:path";

import { importsOf } from "../imports.ts";
import type { Import } from "../imports.ts";
import type { Breach, Rule, SourceFile } from "../source-file.ts";

/** Names, and for each the names that it imports with the place of one such import. */
interface Graph {
  readonly what: string;
  readonly nodes: ReadonlyMap<string, ReadonlyMap<string, Breach>>;
}

/** How files become a graph: what a node is, and which imports make an edge. */
interface View {
  readonly what: string;
  nameOf(path: string): string;
  counts(each: Import, path: string): boolean;
}

/** No file imports itself by way of others. Imports of types do not count: the compiler erases them. */
export const fileCycles: Rule = (files) =>
  cyclesOf(
    graphOf(files, { what: "files", nameOf: (path) => path, counts: ({ typeOnly }) => !typeOnly }),
  );

/**
 * No two folders import each other, directly or by way of others. A folder counts without its subfolders, and a subfolder
 * may import the folder that it is part of: what ties those two is the rule on files. The wire (messages.ts and mailbox/) is a folder of its own: it lies
 * in src/actors for the reader, and below it for the compiler.
 */
export const folderCycles: Rule = (files) =>
  cyclesOf(
    graphOf(files, {
      what: "folders",
      nameOf: folderOf,
      counts: ({ target }, path) => !posix.dirname(path).startsWith(`${posix.dirname(target)}/`),
    }),
  );

function folderOf(path: string): string {
  if (path === "src/actors/messages.ts" || path.startsWith("src/actors/mailbox/"))
    return "the wire";
  const folder = posix.dirname(path);
  return folder === "src" ? path : folder;
}

function graphOf(files: readonly SourceFile[], view: View): Graph {
  const nodes = new Map<string, Map<string, Breach>>();
  for (const file of files) {
    const name = view.nameOf(file.path);
    const edges = nodes.get(name) ?? new Map<string, Breach>();
    nodes.set(name, edges);
    for (const each of importsOf(file)) {
      const to = view.nameOf(each.target);
      const within = to === name && each.target !== file.path;
      if (within || !view.counts(each, file.path)) continue;
      edges.set(to, { path: file.path, line: each.line, problem: "" });
    }
  }
  return { what: view.what, nodes };
}

/** One breach for each edge that closes a cycle in a depth-first walk. */
function cyclesOf({ what, nodes }: Graph): Breach[] {
  const breaches: Breach[] = [];
  const done = new Set<string>();
  const trail: string[] = [];
  const visit = (name: string): void => {
    trail.push(name);
    for (const [to, place] of nodes.get(name) ?? []) {
      const at = trail.indexOf(to);
      if (at >= 0)
        breaches.push({
          ...place,
          problem: `cycle of ${what}: ${[...trail.slice(at), to].join(" -> ")}`,
        });
      else if (!done.has(to)) visit(to);
    }
    trail.pop();
    done.add(name);
  };
  for (const name of nodes.keys()) if (!done.has(name)) visit(name);
  return breaches;
}
