/**
 * Goal: a chat template gives here what `transformers` makes of it, to the character, or fails where it fails: a prompt that
 * differs has other block keys than vLLM's.
 * Method: templates of the forms that models have, and small ones for each piece of the language, with what Python's sandbox
 * gave (scripts/template-goldens.py); gaps of the language and endless templates are written out here.
 */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { contentFormatOf } from "../../src/serving/jinja/content-format.ts";
import {
  TemplateFault,
  TemplateGap,
  TemplateRefusal,
} from "../../src/serving/jinja/template-errors.ts";
import { ChatTemplate } from "../../src/serving/jinja/template.ts";

interface Case {
  readonly name: string;
  readonly template: string;
  readonly world: string;
  readonly text?: string;
  readonly error?: "syntax" | "fault" | "refusal";
  readonly message?: string;
}

const goldens = JSON.parse(
  readFileSync(new URL("golden/templates.json", import.meta.url), "utf8"),
) as {
  readonly nowMs: number;
  readonly worlds: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly cases: readonly Case[];
};
process.env["TZ"] = "UTC";
const options = { nowMs: () => goldens.nowMs };
const render = (source: string, world: Readonly<Record<string, unknown>> = {}): string =>
  new ChatTemplate(source, options).render(world);

test.each(goldens.cases)("$name", ({ template, world, text, error, message }) => {
  const run = (): string => render(template, goldens.worlds[world]);
  if (text !== undefined) expect(run()).toBe(text);
  else if (error === "refusal") {
    expect(run).toThrow(TemplateRefusal);
    expect(run).toThrow(message);
  } else expect(run).toThrow(TemplateFault);
});

test.each([
  [
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    /loops without end/,
  ],
  ["{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", /without end/],
  [
    "{% set n = namespace(s='x') %}{% for i in range(64) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
    /too long/,
  ],
  [
    "{% for i in range(100000) %}{{ 'x' * 100000 }}{% endfor %}",
    /writes more than|loops without end/,
  ],
  ["{{ 'x' * 1000000000 }}", /too long/],
  ["{{ [0] * 1000000000 }}", /too long/],
  ["{{ '%1000000000d' % 1 }}", /width/],
])("%s ends itself", (source, message) => {
  expect(() => render(source)).toThrow(message);
  expect(() => render(source)).toThrow(TemplateFault);
});

test("deep templates are refused, not the process ended", () => {
  expect(() => render(`{{ ${"(".repeat(50_000)}1${")".repeat(50_000)} }}`)).toThrow(
    /nested too deeply/,
  );
  expect(() => render(`{{ ${"-".repeat(50_000)}1 }}`)).toThrow(/nested too deeply/);
  expect(() => render("{% if 1 %}".repeat(50_000))).toThrow(/nested too deeply/);
  for (const deep of [
    "not ".repeat(50_000) + "1",
    `1${"|abs".repeat(50_000)}`,
    `1${" + 1".repeat(50_000)}`,
  ])
    expect(() => render(`{{ ${deep} }}`)).toThrow(/too deep/);
});

test.each([
  ["{{ x|wordwrap(3) }}", "the filter wordwrap (line 1)"],
  ["{% set x | truncate(3) %}a{% endset %}", "the filter truncate (line 1)"],
  ["{{ 'a' is escaped }}", "the test escaped (line 1)"],
  ["\n{% extends 'x' %}", "the statement {% extends %} (line 2)"],
  ["{% for a in b recursive %}{% endfor %}", "a recursive loop (line 1)"],
  ["{{ cycler(1) }}", "the function cycler (line 1)"],
  ["{{ 'a'.translate(x) }}", "the method translate (line 1)"],
])("%s is a gap, by name", (source, gap) => {
  expect(() => new ChatTemplate(source, options)).toThrow(new TemplateGap(gap));
});

test.each([
  ["{% for m in messages %}{{ m.content }}{% endfor %}", "string"],
  [
    "{% for m in messages %}{% for part in m['content'] %}{{ part.text }}{% endfor %}{% endfor %}",
    "openai",
  ],
  [
    "{% set all = messages[1:] %}{% for m in all %}{% for p in m.content | list %}{% endfor %}{% endfor %}",
    "openai",
  ],
  [
    "{% macro show(c) %}{% for p in c %}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m.content) }}{% endfor %}",
    "openai",
  ],
  [
    "{% for m in messages %}{% set content = m.content %}{% for p in content %}{% endfor %}{% endfor %}",
    "openai",
  ],
  [
    "{% set ns = namespace(rest=messages) %}{% for m in ns.rest %}{% for p in m.content %}{% endfor %}{% endfor %}",
    "openai",
  ],
  ["{% for m in tools %}{% for part in m['content'] %}{% endfor %}{% endfor %}", "string"],
])("%s takes content as vLLM finds out", (source, format) => {
  expect(contentFormatOf(new ChatTemplate(source, options).body)).toBe(format);
});
