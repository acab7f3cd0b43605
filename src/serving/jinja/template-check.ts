import { FILTERS } from "./filters.ts";
import { GLOBAL_GAPS } from "./globals.ts";
import { METHOD_GAPS } from "./methods.ts";
import { TemplateFault, TemplateGap } from "./template-errors.ts";
import { TESTS } from "./tests.ts";

/** Filters that Jinja has and we do not. */
const FILTER_GAPS: ReadonlySet<string> = new Set(
  "filesizeformat forceescape pprint random slice striptags truncate urlencode urlize wordwrap xmlattr".split(
    " ",
  ),
);
const TEST_GAPS: ReadonlySet<string> = new Set(["escaped"]);

interface Node {
  readonly type?: unknown;
  readonly [field: string]: unknown;
}

/**
 * Looks through a parsed template for names that nothing stands behind. Throws TemplateGap for what Jinja has and we have not,
 * TemplateFault for what Jinja does not know either.
 */
export function checkNames(node: unknown): void {
  if (Array.isArray(node)) {
    for (const inner of node) checkNames(inner);
    return;
  }
  if (node === null || typeof node !== "object") return;
  const { type, name, callee, line } = node as Node;
  const at = typeof line === "number" ? ` (line ${line})` : "";
  const isFilter = type === "filter" || (type === undefined && "given" in node);
  if (isFilter && typeof name === "string" && !FILTERS.has(name)) {
    if (FILTER_GAPS.has(name)) throw new TemplateGap(`the filter ${name}${at}`);
    throw new TemplateFault(`${at.slice(2, -1)}: no filter named '${name}'`);
  }
  if (type === "test" && typeof name === "string" && !TESTS.has(name)) {
    if (TEST_GAPS.has(name)) throw new TemplateGap(`the test ${name}${at}`);
    throw new TemplateFault(`${at.slice(2, -1)}: no test named '${name}'`);
  }
  const called = (callee ?? {}) as Node;
  if (type === "call" && called.type === "name" && GLOBAL_GAPS.has(String(called["name"]))) {
    throw new TemplateGap(`the function ${String(called["name"])}${at}`);
  }
  if (type === "call" && called.type === "attribute" && METHOD_GAPS.has(String(called["name"]))) {
    throw new TemplateGap(`the method ${String(called["name"])}${at}`);
  }
  for (const inner of Object.values(node)) checkNames(inner);
}
