/** What Python's `str.isspace` and `\s` take, as the inside of a character class: not JavaScript's set. */
export const PYTHON_SPACE =
  "\\t\\n\\x0b\\f\\r\\x1c-\\x1f \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";

const LEADING = new RegExp(`^[${PYTHON_SPACE}]+`, "u");
const ONLY = new RegExp(`^[${PYTHON_SPACE}]+$`, "u");
const SPACE = new RegExp(`^[${PYTHON_SPACE}]$`, "u");

export function stripStart(text: string): string {
  return text.replace(LEADING, "");
}

/** By steps from the end: a pattern that ends in `$` tries every run of blanks of a long text. */
export function stripEnd(text: string): string {
  let end = text.length;
  while (end > 0 && SPACE.test(text[end - 1]!)) end--;
  return text.slice(0, end);
}

export function isSpace(text: string): boolean {
  return ONLY.test(text);
}

// oxlint-disable-next-line no-control-regex
const LINE_END = new RegExp("\\r\\n|[\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029]", "u");

/** Python's `str.splitlines`. */
export function splitLines(text: string, keepEnds = false): string[] {
  const lines: string[] = [];
  let rest = text;
  for (let end = LINE_END.exec(rest); end !== null; end = LINE_END.exec(rest)) {
    const after = end.index + end[0].length;
    lines.push(rest.slice(0, keepEnds ? after : end.index));
    rest = rest.slice(after);
  }
  return rest === "" ? lines : [...lines, rest];
}
