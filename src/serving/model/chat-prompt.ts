import { MooncakeKvError } from "../../errors.ts";
import { type ContentFormat, contentFormatOf } from "../jinja/content-format.ts";
import { TemplateFault, TemplateGap, TemplateRefusal } from "../jinja/template-errors.ts";
import { ChatTemplate } from "../jinja/template.ts";
import type { ChatMessage } from "./tokenizer.ts";

/** Text of the tokens that templates may write; null where the model has none, which templates find undefined. */
export interface TemplateTokens {
  readonly begin: string | null;
  readonly end: string | null;
}

/** The field of errors that are the template's own fault. */
export const CHAT_TEMPLATE_FIELD = "chat_template";

/**
 * A model's chat template with the world that `transformers` and vLLM give it. Messages take the form that vLLM finds out for
 * the template: the parts of a text joined by line ends, or a list of parts. Throws UNSUPPORTED when the template needs a part of
 * Jinja that is not built, MODEL_INVALID when it is wrong in itself.
 */
export class ChatPrompt {
  readonly #template: ChatTemplate;
  readonly #format: ContentFormat;
  readonly #tokens: TemplateTokens;
  readonly #knowsDeveloper: boolean;

  constructor(source: string, tokens: TemplateTokens, model: string, nowMs: () => number) {
    try {
      this.#template = new ChatTemplate(source, { nowMs });
    } catch (error) {
      throw unusableTemplate(error, model);
    }
    this.#format = contentFormatOf(this.#template.body);
    this.#tokens = tokens;
    this.#knowsDeveloper = /["']developer["']/.test(source);
  }

  /** Throws INVALID_VALUE when the template refuses the messages, MODEL_INVALID when it fails over them. */
  render(messages: readonly ChatMessage[]): string {
    const known = this.#knowsDeveloper ? messages : withoutDevelopers(messages);
    try {
      return this.#template.render({
        messages: known.map((message) => this.#shaped(message)),
        tools: null,
        documents: null,
        add_generation_prompt: true,
        ...(this.#tokens.begin !== null && { bos_token: this.#tokens.begin }),
        ...(this.#tokens.end !== null && { eos_token: this.#tokens.end }),
      });
    } catch (error) {
      throw renderingError(error);
    }
  }

  #shaped({ role, content, name }: ChatMessage): Readonly<Record<string, unknown>> {
    const texts = (typeof content === "string" ? [content] : content).filter((text) => text !== "");
    const shaped =
      this.#format === "openai" ? texts.map((text) => ({ type: "text", text })) : texts.join("\n");
    return name === undefined ? { role, content: shaped } : { role, content: shaped, name };
  }
}

/** What a developer says is a system message to templates that do not know the role; several become one, first of all. */
function withoutDevelopers(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  if (messages.every(({ role }) => role !== "developer")) return messages;
  const renamed = messages.map((message) =>
    message.role === "developer" ? { ...message, role: "system" } : message,
  );
  const isSystem = ({ role }: ChatMessage): boolean => role === "system";
  if (renamed.findLastIndex(isSystem) <= 0) return renamed;
  const texts = renamed
    .filter(isSystem)
    .map(({ content }) => (typeof content === "string" ? content : content.join("\n")))
    .filter((text) => text !== "");
  const others = renamed.filter((message) => !isSystem(message));
  return [{ role: "system", content: texts.join("\n\n") }, ...others];
}

function unusableTemplate(error: unknown, model: string): unknown {
  if (error instanceof TemplateGap) {
    return new MooncakeKvError({
      code: "UNSUPPORTED",
      field: model,
      problem: `its chat template needs ${error.message}, which is not built`,
      remedy: "Give a model whose template does without, or take the template out of the file.",
      cause: error,
    });
  }
  if (!(error instanceof TemplateFault)) return error;
  return new MooncakeKvError({
    code: "MODEL_INVALID",
    field: model,
    problem: `its chat template is wrong: ${error.message}`,
    remedy: "Give a model with a sound template, or take the template out of the file.",
    cause: error,
  });
}

function renderingError(error: unknown): unknown {
  if (error instanceof TemplateRefusal) {
    return new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "messages",
      problem: `the model's chat template refuses them: ${error.message}`,
      remedy: "Use the roles and the order of roles that the model was made for.",
      cause: error,
    });
  }
  if (!(error instanceof TemplateFault)) return error;
  return new MooncakeKvError({
    code: "MODEL_INVALID",
    field: CHAT_TEMPLATE_FIELD,
    problem: `the model's chat template failed: ${error.message}`,
    remedy: "Give the model with a sound template, or send the prompt to /v1/completions.",
    cause: error,
  });
}
