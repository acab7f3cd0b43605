// Writes docs/errors.md: all codes, found in the sources, with what they mean, when they come and what to do.
//   --print   shows it instead
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { readArguments } from "./lib/arguments.mjs";
import * as meanings from "./lib/error-meanings.mjs";
import { root, runMain, StepFailure } from "./lib/steps.mjs";

export const ERRORS_PAGE = join(root, "docs", "errors.md");

/** The page as the sources make it. Throws StepFailure for a code without a meaning, and for a meaning without a code. */
export function renderErrors() {
  const text = (path) => readFileSync(join(root, path), "utf8");
  const thrown = names(between(text("src/errors.ts"), "type ErrorCode =", ";"), /"([A-Z_]+)"/g);
  const native = names(all("native", ".cc"), /\bError\(\s*"([A-Z_]+)"/g);
  const engine = text("src/store/engine.ts");
  const resets = between(text("src/connector/reset-answer.ts"), "readonly reason:", ";");
  const outcomes = between(text("src/trace/lanes.ts"), "OUTCOME_LABELS = [", "]");
  const sections = [
    {
      title: "Errors that are thrown: `MooncakeKvError`",
      lead: "`code` is stable; `field`, `value` and `remedy` tell a person what to change. The command line prints the message and ends with exit code 1.",
      codes: thrown,
      table: meanings.THROWN,
    },
    {
      title: "Why an engine is down or failed",
      lead: "`EngineStatus.error.code`: in the log, in `dump()` and in the state that SIGUSR2 writes.",
      codes: native.filter((code) => !thrown.includes(code)),
      table: meanings.ENGINE_STATES,
    },
    {
      title: "Outcomes of lookups, loads and saves",
      lead: "Values, never thrown: `scheduler.outcome(id)`, and the label `outcome` of traces and metrics.",
      codes: names(outcomes, /"([A-Z_]+)"/g),
      table: meanings.OUTCOMES,
    },
    {
      title: "Why a reset was refused",
      lead: "`reason` of the answer to `resetStore`.",
      codes: names(resets, /"([A-Z_]+)"/g),
      table: meanings.RESETS,
    },
    {
      title: "Result codes of engine calls",
      lead: "Per key, in logs.",
      codes: names(between(engine, "EngineCode = {", "} as const"), /^ {2}([A-Z_]+):/gm),
      table: meanings.ENGINE_CODES,
    },
    {
      title: "HTTP",
      lead: "`error.code` of an answer in OpenAI's format, with the status.",
      codes: httpCodes(),
      table: meanings.HTTP,
    },
  ];
  const problems = sections.flatMap(({ title, codes, table }) => [
    ...codes
      .filter((code) => !(codeOf(code) in table))
      .map((code) => `${title}: ${codeOf(code)} has no meaning`),
    ...Object.keys(table)
      .filter((code) => !codes.some((each) => codeOf(each) === code))
      .map((code) => `${title}: no source has ${code}`),
  ]);
  if (problems.length > 0)
    throw new StepFailure(`scripts/lib/error-meanings.mjs:\n${problems.join("\n")}`);
  const head =
    "# Errors\n\nMade from the sources by `node scripts/errors.mjs`; a test holds both equal.\n";
  return [head, ...sections.map(section)].join("\n");
}

function section({ title, lead, codes, table }) {
  const rows = codes.map((code) => {
    const [meaning, when, remedy] = table[codeOf(code)];
    return `| \`${codeOf(code)}\`${code.includes(" ") ? ` (${code.split(" ")[1]})` : ""} | ${meaning} | ${when} | ${remedy} |`;
  });
  return `## ${title}\n${lead}\n\n| Code | Meaning | When | What to do |\n|---|---|---|---|\n${rows.join("\n")}\n`;
}

const codeOf = (code) => code.split(" ")[0];

/** "code statuses", by code: every number of an HTTP failure that stands before a code in one statement. */
function httpCodes() {
  const source = all(join("src", "serving", "http"), ".ts");
  const statuses = new Map([["invalid_value", new Set([400])]]);
  const failure = /\b([45]\d\d),(?:(?!\b[45]\d\d,)[\s\S]){0,500}?"([a-z]+(?:_[a-z]+)+)"/g;
  for (const [, status, code] of source.matchAll(failure))
    statuses.set(code, (statuses.get(code) ?? new Set()).add(Number(status)));
  return [...statuses]
    .map(([code, set]) => `${code} ${[...set].toSorted((left, right) => left - right).join("/")}`)
    .toSorted();
}

function names(source, pattern) {
  return [...new Set([...source.matchAll(pattern)].map(([, name]) => name))];
}

function between(source, from, to) {
  const start = source.indexOf(from);
  if (start < 0)
    throw new StepFailure(
      `scripts/errors.mjs: "${from}" is not in the sources any more. Correct the script.`,
    );
  return source.slice(start, source.indexOf(to, start + from.length));
}

function all(folder, ending) {
  return readdirSync(join(root, folder), { recursive: true })
    .map(String)
    .filter((name) => name.endsWith(ending))
    .toSorted()
    .map((name) => readFileSync(join(root, folder, name), "utf8"))
    .join("\n");
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  await runMain(async () => {
    const { values } = readArguments(
      process.argv.slice(2),
      { print: { type: "boolean" } },
      "--print",
    );
    const page = renderErrors();
    if (values.print === true) process.stdout.write(page);
    else writeFileSync(ERRORS_PAGE, page);
  });
}
