// Goal: docs/errors.md lists every code that this package has, with what it means, when it comes and what to do.
// Method: the page is made from the sources again; a code without a meaning, or a meaning without a code, fails it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";

import { readFiles, root } from "../house/source-file.ts";

interface Script {
  readonly renderErrors: () => string;
  readonly ERRORS_PAGE: string;
}
const script = (await import(pathToFileURL(join(root, "scripts", "errors.mjs")).href)) as Script;

test("docs/errors.md is made from the sources; update it with `node scripts/errors.mjs`", () => {
  expect(readFileSync(script.ERRORS_PAGE, "utf8")).toBe(script.renderErrors());
});

test("every code that a source throws is there", () => {
  const page = script.renderErrors();
  const thrown = readFiles("src", [".ts"]).flatMap(({ text }) =>
    [...text.matchAll(/(?:\bfail\(\s*|\bcode: )"([A-Z]+(?:_[A-Z]+)*)"/g)].map(([, code]) => code),
  );
  expect(thrown.length).toBeGreaterThan(50);
  for (const code of new Set(thrown)) expect(page).toContain(`| \`${code}\` |`);
});
