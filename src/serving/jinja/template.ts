import { globalScope } from "./globals.ts";
import { Meter } from "./meter.ts";
import type { Body } from "./nodes.ts";
import { Renderer } from "./renderer.ts";
import { Scope } from "./scope.ts";
import { parseTemplate } from "./statement-parser.ts";
import { checkNames } from "./template-check.ts";
import { TemplateFault, TemplateGap, TemplateRefusal } from "./template-errors.ts";
import { PyFloat, type Value, fault } from "./values.ts";

/** No model's template comes near. */
const TEMPLATE_CHARACTERS_MAX = 1 << 20;

export interface TemplateOptions {
  /** Unix time in milliseconds, for `strftime_now`. */
  readonly nowMs: () => number;
  /** Bound of one rendering; default ten million steps, about a second. */
  readonly stepsMax?: number;
}

/**
 * A chat template in the world that `transformers` gives it: Jinja with `trim_blocks` and `lstrip_blocks`, loop controls, the
 * block `generation`, `raise_exception`, `strftime_now`, `tojson` without HTML escapes, and an immutable sandbox. Values behave
 * as Python's. Every rendering is bounded in steps, in depth and in what it writes.
 */
export class ChatTemplate {
  readonly body: Body;
  readonly #options: TemplateOptions;

  /** Throws TemplateGap (a part of Jinja that is not built) and TemplateFault (wrong in itself); both name it. */
  constructor(source: string, options: TemplateOptions) {
    this.#options = options;
    if (source.length > TEMPLATE_CHARACTERS_MAX) {
      throw new TemplateFault(`it is longer than ${TEMPLATE_CHARACTERS_MAX} characters`);
    }
    this.body = guarded(() => {
      const body = parseTemplate(source);
      checkNames(body);
      return body;
    });
  }

  /** `world`: plain JSON values by name. Throws TemplateFault and TemplateRefusal. */
  render(world: Readonly<Record<string, unknown>>): string {
    const { nowMs, stepsMax } = this.#options;
    return guarded(() => {
      const scope = new Scope(globalScope(nowMs));
      for (const [name, value] of Object.entries(world)) scope.set(name, fromJson(value));
      return new Renderer(new Meter(stepsMax)).render(this.body, new Scope(scope));
    });
  }
}

/** What V8 refuses (its stack, its longest text) is the template's fault too. */
function guarded<Result>(run: () => Result): Result {
  try {
    return run();
  } catch (error) {
    const known = [TemplateFault, TemplateGap, TemplateRefusal].some(
      (kind) => error instanceof kind,
    );
    if (known || !(error instanceof RangeError)) throw error;
    throw new TemplateFault(`it goes too deep or writes too much: ${error.message}`, {
      cause: error,
    });
  }
}

function fromJson(value: unknown): Value {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isSafeInteger(value) ? value : new PyFloat(value);
  if (Array.isArray(value)) return value.map(fromJson);
  if (typeof value === "object") {
    return new Map(Object.entries(value).map(([key, item]) => [key, fromJson(item)]));
  }
  throw fault(`a ${typeof value} is no value of a template`);
}
