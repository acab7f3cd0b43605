import { importsOf } from "../imports.ts";
import type { Breach, Rule } from "../source-file.ts";

/** Layers of src/ and what each may import besides itself. A file belongs to the layer with the longest prefix. */
interface Layer {
  readonly name: string;
  readonly prefixes: readonly string[];
  readonly imports: readonly string[];
}

const BASE = ["base", "native"];
const DATA = [...BASE, "blocks", "config"];
const BELOW_ACTORS = [...DATA, "keys", "store", "trace", "events", "wire", "connector"];
const PARTS = ["serving", "proxy", "harness", "dashboard"];
const FROM_ACTORS = [...BELOW_ACTORS, "actors"];

/** The table of ARCHITECTURE.md, bottom first. */
export const LAYERS: readonly Layer[] = [
  { name: "base", prefixes: ["src/errors.ts", "src/worker-entry.ts"], imports: [] },
  { name: "native", prefixes: ["src/native/"], imports: ["base"] },
  { name: "blocks", prefixes: ["src/blocks/"], imports: BASE },
  { name: "config", prefixes: ["src/config/"], imports: [...BASE, "blocks"] },
  { name: "keys", prefixes: ["src/keys/"], imports: DATA },
  { name: "store", prefixes: ["src/store/"], imports: DATA },
  { name: "trace", prefixes: ["src/trace/"], imports: DATA },
  { name: "events", prefixes: ["src/events/"], imports: [...DATA, "keys"] },
  {
    name: "wire",
    prefixes: ["src/actors/messages.ts", "src/actors/mailbox/"],
    imports: [...BASE, "blocks", "trace"],
  },
  {
    name: "connector",
    prefixes: ["src/connector/"],
    imports: BELOW_ACTORS.filter((name) => name !== "connector"),
  },
  { name: "actors", prefixes: ["src/actors/"], imports: BELOW_ACTORS },
  // Processes of a development pool: they know the configuration, and nothing of this runtime knows them.
  { name: "pool", prefixes: ["src/pool/"], imports: [...DATA, "store"] },
  ...PARTS.map((name) => ({ name, prefixes: [`src/${name}/`], imports: FROM_ACTORS })),
  { name: "index", prefixes: ["src/index.ts"], imports: [...FROM_ACTORS, ...PARTS] },
  { name: "cli", prefixes: ["src/cli/"], imports: [...FROM_ACTORS, ...PARTS, "index", "pool"] },
];

/** Dependencies point one way: no file imports a layer above its own, or beside it where the table says so. */
export const layers: Rule = (files) =>
  files.flatMap((file) => {
    const layer = layerOf(file.path);
    if (layer === undefined) {
      return [
        { path: file.path, line: 1, problem: "lies in no layer of src; see ARCHITECTURE.md" },
      ];
    }
    return importsOf(file).flatMap(({ target, line }): Breach[] => {
      const imported = layerOf(target);
      if (imported === layer || (imported !== undefined && layer.imports.includes(imported.name)))
        return [];
      const name = imported?.name ?? "no layer of src";
      return [
        { path: file.path, line, problem: `${layer.name} must not import ${target} (${name})` },
      ];
    });
  });

function layerOf(path: string): Layer | undefined {
  let found: Layer | undefined;
  let longest = 0;
  for (const layer of LAYERS) {
    for (const prefix of layer.prefixes) {
      const within = prefix.endsWith("/") ? path.startsWith(prefix) : path === prefix;
      if (within && prefix.length > longest) [found, longest] = [layer, prefix.length];
    }
  }
  return found;
}
