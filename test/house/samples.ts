import { LINES_MAX } from "./rules/text.ts";
import type { SourceFile } from "./source-file.ts";

/** Files that break a rule exactly once, with the breach (its place and the start of its text) before them. */
type BadSample = readonly [breach: string, ...files: SourceFile[]];

interface Samples {
  readonly good: readonly (readonly SourceFile[])[];
  readonly bad: readonly BadSample[];
}

const file = (path: string, ...lines: string[]): SourceFile => ({
  path,
  text: `${lines.join("\n")}\n`,
});
const lines = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `// ${index}`);

const doc = "/** Scheduler -> lookup. Says a. */";
const A = 'export interface A { readonly kind: "a" }';
const B = 'export interface B { readonly kind: "b" }';

/** Good and bad samples, by the name of the rule in house-rules.test.ts. */
export const SAMPLES: Readonly<Record<string, Samples>> = {
  "atomics name their pair": {
    good: [
      [file("src/blocks/a.ts", "// Pairs with the load of b.", "Atomics.store(words, 0, 1);")],
      [file("src/blocks/a.ts", "/** Published with Atomics.store. */", "const a = 1;")],
    ],
    bad: [
      [
        "src/blocks/a.ts:2 Atomics without a comment",
        file("src/blocks/a.ts", "// The last store.", "Atomics.store(words, 0, 1);"),
      ],
    ],
  },

  "files are short": {
    good: [[file("src/keys/a.ts", ...lines(LINES_MAX))]],
    bad: [
      [
        `src/keys/a.ts:${LINES_MAX + 1} ${LINES_MAX + 1} lines`,
        file("src/keys/a.ts", ...lines(LINES_MAX + 1)),
      ],
    ],
  },

  "imports point one way": {
    good: [
      [file("src/keys/a.ts", 'import type { T } from "../blocks/layout.ts";', 'import "node:fs";')],
      [file("src/connector/a.ts", 'export { a } from "../actors/messages.ts";')],
      [file("src/connector/a.ts", 'import { a } from "../actors/mailbox/mailbox.ts";')],
      [file("src/cli/a.ts", 'const a = await import("../serving/server.ts");')],
      [
        file(
          "src/serving/http/a.ts",
          '// import "../../cli/main.ts"',
          "const text = 'import \"../../cli/main.ts\"';",
        ),
      ],
    ],
    bad: [
      [
        "src/keys/a.ts:1 keys must not import src/store/b.ts (store)",
        file("src/keys/a.ts", 'import { b } from "../store/b.ts";'),
      ],
      [
        "src/blocks/a.ts:2 blocks must not",
        file("src/blocks/a.ts", "", 'import type { B } from "../config/b.ts";'),
      ],
      [
        "src/connector/a.ts:1 connector must not",
        file("src/connector/a.ts", 'import { b } from "../actors/step.ts";'),
      ],
      [
        "src/connector/a.ts:1 connector must not",
        file("src/connector/a.ts", 'export * from "../actors/hosts/b.ts";'),
      ],
      [
        "src/actors/mailbox/a.ts:1 wire must not",
        file("src/actors/mailbox/a.ts", 'import { b } from "../step.ts";'),
      ],
      [
        "src/actors/loader/a.ts:1 actors must not",
        file("src/actors/loader/a.ts", 'const b = import("../../serving/b.ts");'),
      ],
      [
        "src/trace/a.ts:1 trace must not",
        file("src/trace/a.ts", 'type B = import("../actors/messages.ts").Message;'),
      ],
      [
        "src/proxy/a.ts:1 proxy must not",
        file("src/proxy/a.ts", 'import { b } from "../serving/b.ts";'),
      ],
      [
        "src/serving/a.ts:1 serving must not",
        file("src/serving/a.ts", 'import { b } from "../../bench/b.ts";'),
      ],
      ["src/stray/a.ts:1 lies in no layer", file("src/stray/a.ts", "export const a = 1;")],
    ],
  },

  "no cycles of files": {
    good: [
      [
        file("src/keys/a.ts", 'import "./b.ts";', 'import "./c.ts";'),
        file("src/keys/b.ts", 'import "./c.ts";'),
        file("src/keys/c.ts", 'import "node:fs";', 'import type { A } from "./a.ts";'),
      ],
    ],
    bad: [
      [
        "src/keys/c.ts:1 cycle of files: src/keys/a.ts -> src/keys/b.ts -> src/keys/c.ts -> src/keys/a.ts",
        file("src/keys/a.ts", 'import "./b.ts";'),
        file("src/keys/b.ts", "", 'export * from "./c.ts";'),
        file("src/keys/c.ts", 'import { type A } from "./a.ts";'),
      ],
      ["src/keys/a.ts:1 cycle of files", file("src/keys/a.ts", 'import "./a.ts";')],
    ],
  },

  "no cycles of folders": {
    good: [
      [
        file("src/actors/loader/a.ts", 'import "../messages.ts";'),
        file("src/actors/step.ts", 'import "./messages.ts";'),
        file("src/actors/messages.ts", 'import "../blocks/layout.ts";'),
        file("src/actors/mailbox/mailbox.ts", 'import "../messages.ts";'),
        file("src/actors/runtime.ts", 'import "./loader/a.ts";'),
        file("src/actors/loader/b.ts", 'import { Runtime } from "../runtime.ts";'),
      ],
    ],
    bad: [
      [
        "src/actors/hosts/b.ts:1 cycle of folders: src/actors/loader -> src/actors/hosts -> src/actors/loader",
        file("src/actors/loader/a.ts", 'import "../hosts/a.ts";'),
        file("src/actors/hosts/a.ts", "export const a = 1;"),
        file("src/actors/hosts/b.ts", 'import "../loader/b.ts";'),
        file("src/actors/loader/b.ts", "export const b = 1;"),
      ],
    ],
  },

  "no any": {
    good: [[file("src/keys/a.ts", "// any", 'const any = "any" as unknown;', "export { any };")]],
    bad: [
      [
        "src/keys/a.ts:2 `any`",
        file("src/keys/a.ts", "", "export function a(b: any[]) { return b.length; }"),
      ],
      ["test/unit/a.test.ts:1 `any`", file("test/unit/a.test.ts", "const a = 1 as any;")],
    ],
  },

  "clock, randomness and log come in from outside": {
    good: [
      [
        file(
          "src/actors/loader/a.ts",
          "// Date.now()",
          "context.nowMs(); new Date(5); Math.max(1); given.console.log(1);",
        ),
      ],
      [file("src/actors/hosts/a.ts", "console.log(Date.now(), Math.random(), performance.now());")],
      [file("src/serving/a.ts", "performance.now();")],
    ],
    bad: [
      [
        "src/actors/loader/a.ts:1 Date.now: the clock",
        file("src/actors/loader/a.ts", "Date.now();"),
      ],
      ["src/actors/a.ts:1 Date.now: the clock", file("src/actors/a.ts", "globalThis.Date.now();")],
      ["src/blocks/a.ts:1 Date.now: the clock", file("src/blocks/a.ts", 'Date["now"]();')],
      [
        "src/connector/a.ts:1 new Date() reads the clock",
        file("src/connector/a.ts", "new Date();"),
      ],
      [
        "src/keys/a.ts:2 Math.random: randomness",
        file("src/keys/a.ts", "", "const random = Math.random;"),
      ],
      [
        "src/connector/a.ts:1 performance.now: the clock",
        file("src/connector/a.ts", "performance.now();"),
      ],
      ["src/blocks/a.ts:1 console: the log", file("src/blocks/a.ts", 'console.warn("full");')],
    ],
  },

  "every message is documented": {
    good: [[file("src/actors/messages.ts", doc, A, doc, B, "export type Message = A | B;")]],
    bad: [
      [
        "src/actors/messages.ts:3 B has no doc comment",
        file("src/actors/messages.ts", doc, A, B, "export type Message = A | B;"),
      ],
      [
        "src/actors/messages.ts:2 A has no doc comment",
        file(
          "src/actors/messages.ts",
          "// Scheduler -> lookup",
          A,
          doc,
          B,
          "type Message = A | B;",
        ),
      ],
      [
        "src/actors/messages.ts:2 the doc comment of A",
        file("src/actors/messages.ts", "/** Says a. */", A, "type Message = A;"),
      ],
      [
        "src/actors/messages.ts:3 B is no interface",
        file("src/actors/messages.ts", doc, A, "export type Message = A | B;"),
      ],
      ["src/actors/messages.ts:1 holds no union", file("src/actors/messages.ts", doc, A)],
    ],
  },

  "every test runs": {
    good: [
      [
        file(
          "test/unit/a.test.ts",
          'test("skip", () => only.skip());',
          "test.each([1])('a', () => {});",
        ),
      ],
    ],
    bad: [
      [
        "test/unit/a.test.ts:1 test.skip:",
        file("test/unit/a.test.ts", 'test.skip("a", () => {});'),
      ],
      [
        "test/unit/a.test.ts:1 it.only:",
        file("test/unit/a.test.ts", 'it.concurrent.only("a", () => {});'),
      ],
      [
        "test/unit/a.test.ts:2 describe.todo:",
        file("test/unit/a.test.ts", "", 'describe.todo("a");'),
      ],
      [
        "test/unit/a.test.ts:1 test.skipIf:",
        file("test/unit/a.test.ts", 'test.skipIf(true)("a", () => {});'),
      ],
      ["test/unit/a.test.ts:1 xit skips", file("test/unit/a.test.ts", 'xit("a", () => {});')],
    ],
  },

  "no native test is disabled": {
    good: [[file("test/native/a.cc", "TEST(Pool, IsDisabled) {}")]],
    bad: [
      [
        "test/native/a.cc:2 DISABLED_Full",
        file("test/native/a.cc", "", "TEST(Pool, DISABLED_Full) {}"),
      ],
    ],
  },

  "tests say their goal": {
    good: [
      [file("test/unit/a.test.ts", "// Goal: a.", 'import "vitest";')],
      [file("test/unit/a.test.ts", "/** Goal: a. */")],
    ],
    bad: [
      [
        "test/unit/a.test.ts:1 does not begin",
        file("test/unit/a.test.ts", 'import "vitest";', "// Goal: a."),
      ],
    ],
  },

  "no paths of one machine": {
    good: [[file("docs/a.md", "See src/work/a.ts, `${root}/work/a`, /homework/ and /tmp/a.")]],
    bad: ["work/", "root/", "tmp/bash_"].map((path): BadSample => [
      `docs/a.md:2 /${path} is a path`,
      file("docs/a.md", "", `See "/${path}a".`),
    ]),
  },

  "exact versions": {
    good: [
      [
        file(
          "package.json",
          '{ "dependencies": { "a": "1.2.3" }, "devDependencies": { "b": "1.0.0-rc.1" } }',
        ),
      ],
    ],
    bad: [
      [
        "package.json:2 a ^1.2.3 is not",
        file("package.json", "{", '"dependencies": { "a": "^1.2.3" } }'),
      ],
      [
        "package.json:1 b latest is not",
        file("package.json", '{ "optionalDependencies": { "b": "latest" } }'),
      ],
    ],
  },
};
