import { ExpressionParser } from "./expression-parser.ts";
import { tokensOf } from "./lexer.ts";
import {
  type BlockFilter,
  type Body,
  type Parameter,
  type Statement,
  type Target,
  NOTHING_GIVEN,
} from "./nodes.ts";
import { TemplateFault, TemplateGap } from "./template-errors.ts";
import { TokenStream } from "./token-stream.ts";

const BLOCKS_MAX = 100;
/** Statements of Jinja and its extensions that no chat template needs. */
const GAPS = new Set([
  "include",
  "import",
  "from",
  "extends",
  "block",
  "autoescape",
  "do",
  "trans",
  "debug",
]);

/** Throws TemplateFault for wrong syntax, TemplateGap for statements that are not built. */
export function parseTemplate(source: string): Body {
  const parser = new StatementParser(new TokenStream(tokensOf(source)));
  return parser.template();
}

class StatementParser {
  readonly #stream: TokenStream;
  readonly #expressions: ExpressionParser;
  #depth = 0;
  #loops = 0;

  constructor(stream: TokenStream) {
    this.#stream = stream;
    this.#expressions = new ExpressionParser(stream);
  }

  template(): Body {
    const body = this.#body([]);
    if (!this.#stream.at("end")) throw this.#stream.fault("unexpected end of a block");
    return body;
  }

  /** Statements up to one of the names `ends`, which stays; up to the template's end when there are none. */
  #body(ends: readonly string[]): Body {
    const stream = this.#stream;
    if (++this.#depth > BLOCKS_MAX) throw new TemplateFault("blocks are nested too deeply");
    const statements: Statement[] = [];
    for (;;) {
      const { line } = stream;
      if (stream.at("end")) {
        if (ends.length > 0) throw stream.fault(`expected ${ends.join(" or ")}`);
        break;
      }
      if (stream.at("text")) statements.push({ type: "text", text: stream.next().value });
      else if (stream.skip("variable_begin")) {
        const value = this.#expressions.tuple();
        stream.expect("variable_end");
        statements.push({ type: "output", value, line });
      } else {
        stream.expect("block_begin");
        if (ends.length > 0 && stream.at("name", ...ends)) break;
        statements.push(this.#statement());
      }
    }
    this.#depth--;
    return statements;
  }

  /** A body with the tag that ends it. */
  #blockUntil(end: string): Body {
    this.#stream.expect("block_end");
    const body = this.#body([end]);
    this.#stream.next();
    this.#stream.expect("block_end");
    return body;
  }

  #statement(): Statement {
    const { value: name, line } = this.#stream.expect("name");
    switch (name) {
      case "if":
        return this.#if();
      case "for":
        return this.#for(line);
      case "set":
        return this.#set(line);
      case "macro":
        return this.#macro();
      case "call":
        return this.#callBlock(line);
      case "filter": {
        const filters = this.#filterChain();
        return { type: "filter_block", filters, body: this.#outsideLoops("endfilter") };
      }
      case "with":
        return this.#with(line);
      case "generation":
        return { type: "scope", body: this.#outsideLoops("endgeneration") };
      case "break":
      case "continue":
        if (this.#loops === 0) throw new TemplateFault(`line ${line}: ${name} outside of a loop`);
        this.#stream.expect("block_end");
        return { type: name };
      default:
        if (GAPS.has(name)) throw new TemplateGap(`the statement {% ${name} %} (line ${line})`);
        throw new TemplateFault(`line ${line}: unknown statement ${JSON.stringify(name)}`);
    }
  }

  #if(): Statement {
    const test = this.#expressions.tuple(false);
    this.#stream.expect("block_end");
    const body = this.#body(["elif", "else", "endif"]);
    const { value } = this.#stream.next();
    if (value === "elif") return { type: "if", test, body, otherwise: [this.#if()] };
    this.#stream.expect("block_end");
    if (value === "endif") return { type: "if", test, body, otherwise: [] };
    const otherwise = this.#body(["endif"]);
    this.#stream.next();
    this.#stream.expect("block_end");
    return { type: "if", test, body, otherwise };
  }

  #for(line: number): Statement {
    const stream = this.#stream;
    const target = this.#target();
    stream.expect("name", "in");
    const iterable = this.#expressions.tuple(false, ["recursive"]);
    const test = stream.skip("name", "if") ? this.#expressions.expression() : null;
    if (stream.at("name", "recursive")) throw new TemplateGap(`a recursive loop (line ${line})`);
    stream.expect("block_end");
    this.#loops++;
    const body = this.#body(["endfor", "else"]);
    this.#loops--;
    const otherwise = stream.next().value === "else" ? this.#loopElse() : [];
    stream.expect("block_end");
    return { type: "for", target, iterable, test, body, otherwise, line };
  }

  #loopElse(): Body {
    this.#stream.expect("block_end");
    const body = this.#body(["endfor"]);
    this.#stream.next();
    return body;
  }

  #set(line: number): Statement {
    const target = this.#target(true);
    if (this.#stream.skip("operator", "=")) {
      const value = this.#expressions.tuple();
      this.#stream.expect("block_end");
      return { type: "set", target, value, line };
    }
    const filters = this.#stream.at("operator", "|") ? this.#filterChain() : [];
    return { type: "set_block", target, filters, body: this.#outsideLoops("endset"), line };
  }

  #macro(): Statement {
    const name = this.#stream.expect("name").value;
    const parameters = this.#parameters();
    return { type: "macro", name, parameters, body: this.#outsideLoops("endmacro") };
  }

  #callBlock(line: number): Statement {
    const parameters = this.#stream.at("operator", "(") ? this.#parameters() : [];
    const call = this.#expressions.expression();
    if (call.type !== "call") throw this.#stream.fault("expected a call");
    return { type: "call_block", call, parameters, body: this.#outsideLoops("endcall"), line };
  }

  #with(line: number): Statement {
    const assignments: [Target, ReturnType<ExpressionParser["expression"]>][] = [];
    while (!this.#stream.at("block_end")) {
      if (assignments.length > 0) this.#stream.expect("operator", ",");
      const target = this.#target();
      this.#stream.expect("operator", "=");
      assignments.push([target, this.#expressions.expression()]);
    }
    return { type: "with", assignments, body: this.#blockUntil("endwith"), line };
  }

  /** The body is a function of its own: no break leaves it. */
  #outsideLoops(end: string): Body {
    const loops = this.#loops;
    this.#loops = 0;
    const body = this.#blockUntil(end);
    this.#loops = loops;
    return body;
  }

  #parameters(): readonly Parameter[] {
    const stream = this.#stream;
    const parameters: Parameter[] = [];
    stream.expect("operator", "(");
    while (!stream.at("operator", ")")) {
      if (parameters.length > 0) stream.expect("operator", ",");
      const name = stream.expect("name").value;
      const otherwise = stream.skip("operator", "=") ? this.#expressions.expression() : null;
      if (otherwise === null && parameters.at(-1)?.otherwise) {
        throw stream.fault("a parameter without default follows one with a default");
      }
      parameters.push({ name, otherwise });
    }
    stream.expect("operator", ")");
    return parameters;
  }

  #filterChain(): readonly BlockFilter[] {
    const filters: BlockFilter[] = [];
    this.#stream.skip("operator", "|");
    do {
      const { line } = this.#stream;
      const name = this.#expressions.dottedName();
      const given = this.#stream.at("operator", "(") ? this.#expressions.given() : NOTHING_GIVEN;
      filters.push({ name, given, line });
    } while (this.#stream.skip("operator", "|"));
    return filters;
  }

  #target(withNamespace = false): Target {
    const stream = this.#stream;
    if (withNamespace && stream.at("name") && stream.followedBy("operator", ".")) {
      const name = stream.next().value;
      stream.next();
      return { type: "namespace", name, attribute: stream.expect("name").value };
    }
    const items = [this.#singleTarget()];
    let isTuple = false;
    while (stream.skip("operator", ",")) {
      isTuple = true;
      if (!stream.at("name") || stream.at("name", "in")) break;
      items.push(this.#singleTarget());
    }
    return isTuple ? { type: "tuple", items } : items[0]!;
  }

  #singleTarget(): Target {
    if (this.#stream.skip("operator", "(")) {
      const inner = this.#target();
      this.#stream.expect("operator", ")");
      return inner;
    }
    return { type: "name", name: this.#stream.expect("name").value };
  }
}
