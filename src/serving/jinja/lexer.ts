import { PYTHON_SPACE, isSpace, stripEnd } from "./python-space.ts";
import { unescapeString } from "./string-escapes.ts";
import { TemplateFault } from "./template-errors.ts";

export type TokenKind =
  | "text"
  | "variable_begin"
  | "variable_end"
  | "block_begin"
  | "block_end"
  | "name"
  | "string"
  | "integer"
  | "float"
  | "operator"
  | "end";

export interface Token {
  readonly kind: TokenKind;
  readonly value: string;
  readonly line: number;
}

const S = `[${PYTHON_SPACE}]`;
const OPENING = new RegExp(
  `\\{%[-+]?${S}*raw${S}*(?:-%\\}${S}*|%\\})|\\{\\{[-+]?|\\{%[-+]?|\\{#[-+]?`,
  "u",
);
const RAW_END = new RegExp(`\\{%([-+]?)${S}*endraw${S}*(?:\\+%\\}|-%\\}${S}*|%\\}\\n?)`, "u");
const COMMENT_END = new RegExp(`\\+#\\}|-#\\}${S}*|#\\}\\n?`, "u");
const BLOCK_END = new RegExp(`(?:\\+%\\}|-%\\}${S}*|%\\}\\n?)`, "uy");
const VARIABLE_END = new RegExp(`(?:-\\}\\}${S}*|\\}\\})`, "uy");
const SPACES = new RegExp(`${S}+`, "uy");
const FLOAT = /(?<!\.)\d+(?:_\d+)*(?:(?:\.\d+(?:_\d+)*)?[eE][+-]?\d+(?:_\d+)*|\.\d+(?:_\d+)*)/uy;
const INTEGER =
  /0[bB](?:_?[0-1])+|0[oO](?:_?[0-7])+|0[xX](?:_?[\da-fA-F])+|[1-9](?:_?\d)*|0(?:_?0)*/uy;
const NAME = /[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}]*/uy;
const STRING = /'[^'\\]*(?:\\[^][^'\\]*)*'|"[^"\\]*(?:\\[^][^"\\]*)*"/uy;
const OPERATOR = /\*\*|\/\/|==|!=|>=|<=|[-+/*%~[\](){}><=.:|,;]/uy;
const CLOSED_BY: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

/** Cuts a template into tokens as Jinja does with `trim_blocks` and `lstrip_blocks`. Throws TemplateFault. */
export function tokensOf(source: string): readonly Token[] {
  return new Lexer(source).run();
}

class Lexer {
  readonly #source: string;
  readonly #tokens: Token[] = [];
  #at = 0;
  #line = 1;
  #counted = 0;
  /** The last tag took the line end behind it. */
  #lineStarting = true;

  constructor(source: string) {
    const lines = source.replaceAll(/\r\n|\r/g, "\n");
    // One line end at the template's end is no part of it.
    this.#source = lines.endsWith("\n") ? lines.slice(0, -1) : lines;
  }

  run(): readonly Token[] {
    for (;;) {
      const rest = this.#source.slice(this.#at);
      const opening = OPENING.exec(rest);
      if (opening === null) {
        this.#push("text", rest);
        this.#push("end", "");
        return this.#tokens;
      }
      const tag = opening[0];
      this.#text(rest.slice(0, opening.index), tag[2], !tag.startsWith("{{"));
      this.#at += opening.index + tag.length;
      if (tag.includes("raw")) this.#raw();
      else if (tag.startsWith("{#")) this.#comment();
      else this.#tag(tag.startsWith("{{") ? "variable" : "block");
    }
  }

  /** Text before a tag; a `-` of the tag strips it, and blanks of a line that begins with a block go. */
  #text(text: string, sign: string | undefined, isBlock: boolean): void {
    if (sign === "-") this.#push("text", stripEnd(text));
    else {
      const lineStart = text.lastIndexOf("\n") + 1;
      const strips = sign !== "+" && isBlock && (lineStart > 0 || this.#lineStarting);
      const indent = text.slice(lineStart);
      this.#push("text", strips && isSpace(indent) ? text.slice(0, lineStart) : text);
    }
  }

  #raw(): void {
    const rest = this.#source.slice(this.#at);
    const end = RAW_END.exec(rest);
    if (end === null) throw this.#fault("the block raw has no end");
    this.#lineStarting = this.#source[this.#at - 1] === "\n";
    this.#text(rest.slice(0, end.index), end[1], true);
    this.#at += end.index + end[0].length;
    this.#lineStarting = end[0].endsWith("\n");
  }

  #comment(): void {
    const rest = this.#source.slice(this.#at);
    const end = COMMENT_END.exec(rest);
    if (end === null) throw this.#fault("a comment has no end");
    this.#at += end.index + end[0].length;
    this.#lineStarting = end[0].endsWith("\n");
  }

  #tag(kind: "variable" | "block"): void {
    this.#push(`${kind}_begin`, "");
    const closing = kind === "block" ? BLOCK_END : VARIABLE_END;
    const open: string[] = [];
    for (;;) {
      const end = open.length === 0 ? this.#match(closing) : null;
      if (end !== null) {
        this.#push(`${kind}_end`, "");
        this.#lineStarting = end.endsWith("\n");
        return;
      }
      if (this.#match(SPACES) === null) this.#expressionToken(open);
    }
  }

  #expressionToken(open: string[]): void {
    const float = this.#match(FLOAT);
    if (float !== null) return this.#push("float", float.replaceAll("_", ""));
    const integer = this.#match(INTEGER);
    if (integer !== null) return this.#push("integer", integer.replaceAll("_", ""));
    const name = this.#match(NAME);
    if (name !== null) return this.#push("name", name);
    const string = this.#match(STRING);
    if (string !== null) return this.#push("string", unescapeString(string.slice(1, -1)));
    const operator = this.#match(OPERATOR);
    if (operator === null) {
      if (this.#at >= this.#source.length) throw this.#fault("a tag has no end");
      throw this.#fault(`unexpected character ${JSON.stringify(this.#source[this.#at])}`);
    }
    const closes = CLOSED_BY[operator];
    if (closes !== undefined) open.push(closes);
    else if (")]}".includes(operator) && open.pop() !== operator) {
      throw this.#fault(`unexpected "${operator}"`);
    }
    this.#push("operator", operator);
  }

  #match(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#source);
    if (found === null) return null;
    this.#at += found[0].length;
    return found[0];
  }

  #push(kind: TokenKind, value: string): void {
    if (kind === "text" && value === "") return;
    while (this.#counted < this.#at) if (this.#source[this.#counted++] === "\n") this.#line++;
    this.#tokens.push({ kind, value, line: this.#line });
  }

  #fault(problem: string): TemplateFault {
    while (this.#counted < this.#at) if (this.#source[this.#counted++] === "\n") this.#line++;
    return new TemplateFault(`line ${this.#line}: ${problem}`);
  }
}
