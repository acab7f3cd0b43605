import { CONSTANTS, integerOf } from "./literals.ts";
import { type Expression, type Given, NOTHING_GIVEN } from "./nodes.ts";
import { TemplateFault } from "./template-errors.ts";
import type { TokenStream } from "./token-stream.ts";

const NESTING_MAX = 200;
const COMPARISONS = ["==", "!=", "<", "<=", ">", ">="];
/** Expressions with Jinja's precedences, from the weakest (`x if y else z`) to the strongest. Throws TemplateFault. */
export class ExpressionParser {
  readonly #stream: TokenStream;
  #depth = 0;

  constructor(stream: TokenStream) {
    this.#stream = stream;
  }

  /** `withCondition` false: an `if` behind it is not its own, as after `for x in y`. */
  expression(withCondition = true): Expression {
    if (++this.#depth > NESTING_MAX) throw new TemplateFault("expressions are nested too deeply");
    const parsed = withCondition ? this.#condition() : this.#or();
    this.#depth--;
    return parsed;
  }

  /** One expression, or a tuple of several with commas between. `ends`: names that end it. */
  tuple(withCondition = true, ends: readonly string[] = [], inParentheses = false): Expression {
    const stream = this.#stream;
    const items: Expression[] = [];
    let isTuple = false;
    for (;;) {
      if (items.length > 0 || isTuple) stream.expect("operator", ",");
      if (this.#tupleEnds(ends)) break;
      items.push(this.expression(withCondition));
      if (!stream.at("operator", ",")) break;
      isTuple = true;
    }
    if (!isTuple && items.length === 1) return items[0]!;
    if (items.length === 0 && !inParentheses) throw stream.fault("expected an expression");
    return { type: "tuple", items };
  }

  /** Arguments between parentheses. */
  given(): Given {
    const stream = this.#stream;
    const positional: Expression[] = [];
    const keywords: [string, Expression][] = [];
    let spread: Expression | null = null;
    let keywordSpread: Expression | null = null;
    stream.expect("operator", "(");
    for (let first = true; !stream.at("operator", ")"); first = false) {
      if (!first) {
        stream.expect("operator", ",");
        if (stream.at("operator", ")")) break;
      }
      if (stream.skip("operator", "*")) spread = this.expression();
      else if (stream.skip("operator", "**")) keywordSpread = this.expression();
      else if (stream.at("name") && stream.followedBy("operator", "=")) {
        const key = stream.next().value;
        stream.next();
        keywords.push([key, this.expression()]);
      } else if (keywords.length > 0 || keywordSpread !== null) {
        throw stream.fault("a positional argument follows one with a name");
      } else positional.push(this.expression());
    }
    stream.expect("operator", ")");
    return { positional, keywords, spread, keywordSpread };
  }

  #tupleEnds(ends: readonly string[]): boolean {
    const stream = this.#stream;
    if (stream.at("variable_end") || stream.at("block_end") || stream.at("operator", ")"))
      return true;
    return ends.length > 0 && stream.at("name", ...ends);
  }

  #condition(): Expression {
    let value = this.#or();
    while (this.#stream.skip("name", "if")) {
      const test = this.#or();
      const otherwise = this.#stream.skip("name", "else") ? this.expression() : null;
      value = { type: "condition", test, chosen: value, otherwise };
    }
    return value;
  }

  #or(): Expression {
    let left = this.#and();
    while (this.#stream.skip("name", "or")) left = { type: "or", left, right: this.#and() };
    return left;
  }

  #and(): Expression {
    let left = this.#not();
    while (this.#stream.skip("name", "and")) left = { type: "and", left, right: this.#not() };
    return left;
  }

  #not(): Expression {
    let count = 0;
    while (this.#stream.at("name", "not") && !this.#stream.followedBy("name", "in")) {
      this.#stream.next();
      count++;
    }
    let operand = this.#comparison();
    for (; count > 0; count--) operand = { type: "not", operand };
    return operand;
  }

  #comparison(): Expression {
    const { line } = this.#stream;
    const first = this.#sum();
    const rest: [string, Expression][] = [];
    for (;;) {
      if (this.#stream.at("operator", ...COMPARISONS)) {
        const operator = this.#stream.next().value;
        rest.push([operator, this.#sum()]);
      } else if (this.#stream.skip("name", "in")) rest.push(["in", this.#sum()]);
      else if (this.#stream.at("name", "not") && this.#stream.followedBy("name", "in")) {
        this.#stream.next();
        this.#stream.next();
        rest.push(["not in", this.#sum()]);
      } else break;
    }
    return rest.length === 0 ? first : { type: "compare", first, rest, line };
  }

  #sum(): Expression {
    return this.#binary(["+", "-"], () => this.#concatenation());
  }

  #concatenation(): Expression {
    const items = [this.#product()];
    while (this.#stream.skip("operator", "~")) items.push(this.#product());
    return items.length === 1 ? items[0]! : { type: "concat", items };
  }

  #product(): Expression {
    return this.#binary(["*", "/", "//", "%"], () => this.#binary(["**"], () => this.#unary(true)));
  }

  #binary(operators: readonly string[], operand: () => Expression): Expression {
    const { line } = this.#stream;
    let left = operand();
    while (this.#stream.at("operator", ...operators)) {
      const operator = this.#stream.next().value;
      left = { type: "binary", operator, left, right: operand(), line };
    }
    return left;
  }

  #unary(withFilters: boolean): Expression {
    if (++this.#depth > NESTING_MAX) throw new TemplateFault("expressions are nested too deeply");
    let node: Expression;
    if (this.#stream.skip("operator", "-"))
      node = { type: "negative", operand: this.#unary(false) };
    else if (this.#stream.skip("operator", "+")) {
      node = { type: "positive", operand: this.#unary(false) };
    } else node = this.#primary();
    node = this.#postfix(node);
    this.#depth--;
    return withFilters ? this.#filters(node) : node;
  }

  #primary(): Expression {
    const stream = this.#stream;
    const token = stream.next();
    if (token.kind === "name") {
      const constant = CONSTANTS.get(token.value);
      if (constant !== undefined) return { type: "const", value: constant };
      return { type: "name", name: token.value };
    }
    if (token.kind === "string") {
      let text = token.value;
      while (stream.at("string")) text += stream.next().value;
      return { type: "const", value: text };
    }
    if (token.kind === "integer")
      return { type: "const", value: integerOf(token.value, token.line) };
    if (token.kind === "float") return { type: "float", value: Number(token.value) };
    if (token.kind === "operator") {
      if (token.value === "(") {
        const inner = this.tuple(true, [], true);
        stream.expect("operator", ")");
        return inner;
      }
      if (token.value === "[") return { type: "list", items: this.#listed() };
      if (token.value === "{") return { type: "dict", entries: this.#entries() };
    }
    throw new TemplateFault(
      `line ${token.line}: unexpected ${JSON.stringify(token.value || token.kind)}`,
    );
  }

  #listed(): readonly Expression[] {
    const items: Expression[] = [];
    while (!this.#stream.at("operator", "]")) {
      if (items.length > 0) this.#stream.expect("operator", ",");
      if (this.#stream.at("operator", "]")) break;
      items.push(this.expression());
    }
    this.#stream.expect("operator", "]");
    return items;
  }

  #entries(): readonly (readonly [Expression, Expression])[] {
    const entries: [Expression, Expression][] = [];
    while (!this.#stream.at("operator", "}")) {
      if (entries.length > 0) this.#stream.expect("operator", ",");
      if (this.#stream.at("operator", "}")) break;
      const key = this.expression();
      this.#stream.expect("operator", ":");
      entries.push([key, this.expression()]);
    }
    this.#stream.expect("operator", "}");
    return entries;
  }

  #postfix(node: Expression): Expression {
    let result = node;
    for (;;) {
      if (this.#stream.at("operator", ".", "[")) result = this.#subscript(result);
      else if (this.#stream.at("operator", "(")) result = this.#call(result);
      else return result;
    }
  }

  #call(callee: Expression): Expression {
    const { line } = this.#stream;
    return { type: "call", callee, given: this.given(), line };
  }

  #subscript(object: Expression): Expression {
    const stream = this.#stream;
    if (stream.skip("operator", ".")) {
      if (stream.at("name")) return { type: "attribute", object, name: stream.next().value };
      const { value, line } = stream.expect("integer");
      return { type: "item", object, index: { type: "const", value: integerOf(value, line) } };
    }
    stream.expect("operator", "[");
    const bounds: (Expression | null)[] = [null];
    let isSlice = false;
    while (!stream.at("operator", "]")) {
      if (stream.skip("operator", ":")) {
        isSlice = true;
        bounds.push(null);
      } else if (bounds.at(-1) === null) bounds[bounds.length - 1] = this.expression();
      else throw stream.fault("expected ]");
    }
    stream.expect("operator", "]");
    if (isSlice && bounds.length <= 3) return { type: "slice", object, bounds };
    const [index = null] = bounds;
    if (isSlice || index === null) throw stream.fault("expected one subscript");
    return { type: "item", object, index };
  }

  #filters(node: Expression): Expression {
    const stream = this.#stream;
    let operand = node;
    for (;;) {
      const { line } = stream;
      if (stream.skip("operator", "|")) {
        const name = this.dottedName();
        operand = { type: "filter", name, operand, given: this.#optionalGiven(), line };
      } else if (stream.skip("name", "is")) operand = this.#test(operand, line);
      // A call binds to what a filter or a test gives.
      else if (stream.at("operator", "(")) operand = this.#call(operand);
      else return operand;
    }
  }

  #test(operand: Expression, line: number): Expression {
    const stream = this.#stream;
    const negated = stream.skip("name", "not");
    const name = this.dottedName();
    let given = NOTHING_GIVEN;
    const starts =
      stream.at("name") ||
      stream.at("string") ||
      stream.at("integer") ||
      stream.at("float") ||
      stream.at("operator", "[", "{");
    if (stream.at("operator", "(")) given = this.given();
    else if (starts && !stream.at("name", "else", "or", "and")) {
      if (stream.at("name", "is")) throw stream.fault("tests cannot be chained");
      given = { ...NOTHING_GIVEN, positional: [this.#postfix(this.#primary())] };
    }
    const test: Expression = { type: "test", name, operand, given, line };
    return negated ? { type: "not", operand: test } : test;
  }

  dottedName(): string {
    let name = this.#stream.expect("name").value;
    while (this.#stream.skip("operator", ".")) name += `.${this.#stream.expect("name").value}`;
    return name;
  }

  #optionalGiven(): Given {
    return this.#stream.at("operator", "(") ? this.given() : NOTHING_GIVEN;
  }
}
