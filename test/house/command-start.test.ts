// Goal: a command loads what it needs and no more, so that `mooncake-kv --help` and the pool's commands start at once: HTTP server,
// model, actors and connector are loaded by `serve` alone.
// Method: follows the imports from the command line's entry, without types and without import().
import { expect, test } from "vitest";

import { importsOf } from "./imports.ts";
import { readFiles } from "./source-file.ts";

const files = new Map(readFiles("src", [".ts"]).map((file) => [file.path, file]));

function loadedWith(path: string, loaded = new Set<string>()): Set<string> {
  const file = files.get(path);
  if (file === undefined || loaded.has(path)) return loaded;
  loaded.add(path);
  for (const { target, typeOnly, lazy } of importsOf(file))
    if (!typeOnly && !lazy) loadedWith(target, loaded);
  return loaded;
}

const heavy = /^src\/(?:actors|connector|events|serving|trace)\//;

test("no command but serve loads the server", () => {
  const loaded = [...loadedWith("src/cli/command-line.ts")];
  expect(loaded).toContain("src/cli/serve-command.ts");
  expect(loaded.filter((path) => heavy.test(path))).toEqual([]);
});

test("serve does, so the walk sees what it looks for", () => {
  const loaded = [...loadedWith("src/cli/serve.ts")];
  expect(loaded).toContain("src/serving/application.ts");
  expect(loaded).toContain("src/actors/runtime/runtime.ts");
});
