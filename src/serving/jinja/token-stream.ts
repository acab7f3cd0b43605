import type { Token, TokenKind } from "./lexer.ts";
import { TemplateFault } from "./template-errors.ts";

/** Tokens read front to back, one ahead. */
export class TokenStream {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  get current(): Token {
    return this.#tokens[this.#at]!;
  }

  get line(): number {
    return this.current.line;
  }

  next(): Token {
    const token = this.current;
    if (token.kind !== "end") this.#at++;
    return token;
  }

  /** Is the current token of this kind, and of one of these values when there are any? */
  at(kind: TokenKind, ...values: readonly string[]): boolean {
    const { current } = this;
    return current.kind === kind && (values.length === 0 || values.includes(current.value));
  }

  followedBy(kind: TokenKind, value: string): boolean {
    const token = this.#tokens[this.#at + 1];
    return token?.kind === kind && token.value === value;
  }

  /** Takes the current token when it is that one. */
  skip(kind: TokenKind, ...values: readonly string[]): boolean {
    if (!this.at(kind, ...values)) return false;
    this.next();
    return true;
  }

  expect(kind: TokenKind, ...values: readonly string[]): Token {
    if (this.at(kind, ...values)) return this.next();
    throw this.fault(
      `expected ${values.length > 0 ? values.join(" or ") : kind.replace("_", " ")}`,
    );
  }

  fault(problem: string): TemplateFault {
    const { kind, value, line } = this.current;
    const got =
      kind === "end" ? "the end" : value === "" ? kind.replace("_", " ") : JSON.stringify(value);
    return new TemplateFault(`line ${line}: ${problem}, got ${got}`);
  }
}
