import type { ModelTokenizer } from "../model/tokenizer.ts";
import type { FrontEndRequest } from "../front-end-types.ts";
import type { PromptEncoder } from "../tokenizing/prompt-encoder.ts";
import { promptLength } from "../tokenizing/prompt-text.ts";
import { chatMessages } from "./chat-messages.ts";
import { ApiError, badParameter } from "./errors.ts";
import type { IgnoredField } from "./known-fields.ts";
import { parsePrompt } from "./prompt-field.ts";
import {
  chatSchema,
  completionSchema,
  parseBody,
  parseStops,
  parseStreamOptions,
  type CommonBody,
} from "./schemas.ts";
import { longestTokenText } from "./token-text.ts";

/** OpenAI's and vLLM's default for /v1/completions; a chat answer may fill the context. */
const COMPLETION_TOKENS_DEFAULT = 16;

/** The model as requests see it. */
export interface ServedModel {
  readonly modelName: string;
  readonly tokenizer: ModelTokenizer;
  readonly prompts: PromptEncoder;
  /** Longest sequence: prompt and answer. */
  readonly contextTokensMax: number;
}

/** A checked request of either kind. */
export interface AnswerRequest {
  readonly request: Omit<FrontEndRequest, "id">;
  readonly stops: readonly string[];
  readonly stream: boolean;
  /** A last chunk with the usage. */
  readonly includeUsage: boolean;
  /** The answer carries the field `x_mooncake_kv`. */
  readonly extension: boolean;
}

/** What parsing a request needs besides its body. */
export interface RequestWorld {
  readonly model: ServedModel;
  /** Uniform in [0, 1): the seed of a request that names none. */
  readonly random: () => number;
  readonly ignored: IgnoredField;
}

/** Throws ApiError. */
export async function parseCompletion(
  body: unknown,
  { model, ...world }: RequestWorld,
): Promise<AnswerRequest> {
  const parsed = parseBody(completionSchema, body);
  checkModel(parsed.model, model);
  const fixed = common(parsed, world);
  const promptTokens = await completionTokens(parsed.prompt, model);
  const maxTokens = answerTokens(
    promptTokens,
    parsed.max_tokens ?? COMPLETION_TOKENS_DEFAULT,
    model,
    { prompt: "prompt", answer: "max_tokens" },
  );
  return fixed({ promptTokens, maxTokens, logprobs: parsed.logprobs });
}

/** Throws ApiError, and MooncakeKvError when the model's chat template refuses the messages. */
export async function parseChat(
  body: unknown,
  { model, ...world }: RequestWorld,
): Promise<AnswerRequest> {
  const parsed = parseBody(chatSchema, body);
  checkModel(parsed.model, model);
  if (parsed.top_logprobs !== undefined && parsed.logprobs !== true) {
    throw badParameter("top_logprobs", "needs 'logprobs': true.");
  }
  const fixed = common(parsed, world);
  const messages = chatMessages(parsed.messages, world.ignored);
  checkTextLength(promptLength(messages), model, "messages");
  const promptTokens = await model.prompts.encode(messages);
  const field = parsed.max_completion_tokens === undefined ? "max_tokens" : "max_completion_tokens";
  const maxTokens = answerTokens(promptTokens, parsed[field], model, {
    prompt: "messages",
    answer: field,
  });
  const logprobs = parsed.logprobs === true ? (parsed.top_logprobs ?? 0) : undefined;
  return fixed({ promptTokens, maxTokens, logprobs });
}

type OwnFields = Pick<FrontEndRequest, "promptTokens" | "maxTokens" | "logprobs">;

/** Checks what both endpoints share, before anything is tokenized; the answer takes each endpoint's own fields. */
function common(
  parsed: CommonBody,
  { random, ignored }: Omit<RequestWorld, "model">,
): (own: OwnFields) => AnswerRequest {
  const stops = parseStops(parsed.stop);
  const options = parsed.stream_options ?? null;
  const includeUsage = options !== null && parseStreamOptions(options, ignored);
  if (options !== null && parsed.stream !== true) {
    throw badParameter("stream_options", "needs 'stream': true.");
  }
  return (own) => ({
    request: {
      ...own,
      temperature: parsed.temperature ?? 1,
      topP: parsed.top_p ?? 1,
      seed: parsed.seed ?? Math.floor(random() * 0x8000_0000),
      cacheSalt: parsed.cache_salt,
      noReuse: parsed.x_mooncake_no_reuse,
      ignoreEndTokens: parsed.ignore_eos,
    },
    stops,
    stream: parsed.stream ?? false,
    includeUsage,
    extension: parsed.x_mooncake_kv ?? false,
  });
}

function checkModel(asked: string | undefined, model: ServedModel): void {
  if (asked === undefined || asked === model.modelName) return;
  throw unknownModel(asked, model);
}

export function unknownModel(asked: string, model: ServedModel): ApiError {
  const text = `The model '${asked.slice(0, 200).toWellFormed()}' does not exist here. Use '${model.modelName}'.`;
  return new ApiError(404, text, "model_not_found", "model");
}

async function completionTokens(given: unknown, model: ServedModel): Promise<Int32Array> {
  const { vocabSize } = model.tokenizer;
  const checkLength = (tokens: number): void => checkPromptLength(tokens, model, "prompt");
  const prompt = parsePrompt(given, { vocabSize, checkLength });
  if (typeof prompt !== "string") return prompt;
  checkTextLength(prompt.length, model, "prompt");
  return await model.prompts.encode(prompt);
}

/**
 * How many tokens the answer may have; throws when prompt and answer do not fit into the context. `fields`: the request's
 * parameters for either.
 */
function answerTokens(
  promptTokens: Int32Array,
  asked: number | undefined,
  model: ServedModel,
  fields: { readonly prompt: string; readonly answer: string },
): number {
  const prompt = promptTokens.length;
  const context = model.contextTokensMax;
  if (prompt === 0) throw badParameter(fields.prompt, "must have at least one token.");
  checkPromptLength(prompt, model, fields.prompt);
  if (asked === undefined) return context - prompt;
  if (asked > context - prompt) {
    const text = `The prompt has ${prompt} tokens and '${fields.answer}' asks for ${asked}. Lower it to at most ${context - prompt}, or shorten the prompt.`;
    throw tooLong(text, context, fields.answer);
  }
  return asked;
}

function checkPromptLength(tokens: number, model: ServedModel, param: string): void {
  const context = model.contextTokensMax;
  if (tokens < context) return;
  const text = `The prompt has ${tokens} tokens. Shorten it to at most ${context - 1}.`;
  throw tooLong(text, context, param);
}

/** Refuses what cannot fit however it is cut into tokens, before a tokenizer spends seconds on it. */
function checkTextLength(units: number, model: ServedModel, param: string): void {
  const context = model.contextTokensMax;
  const most = context * longestTokenText(model.tokenizer);
  if (units <= most) return;
  throw tooLong(`The text of ${units} characters is longer than that. Shorten it.`, context, param);
}

function tooLong(text: string, context: number, param: string): ApiError {
  const message = `This model's maximum context length is ${context} tokens. ${text}`;
  return new ApiError(400, message, "context_length_exceeded", param);
}
