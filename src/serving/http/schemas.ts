import { z } from "zod";
import { TOP_LOGPROBS_MAX } from "../../blocks/layout.ts";
import { ApiError, badParameter } from "./errors.ts";
import { checkFields, type IgnoredField, type KnownFields } from "./known-fields.ts";
import { supportedParameters } from "./parameters.ts";

const STOPS_MAX = 4;
const STOP_CHARACTERS_MAX = 1024;
const SALT_CHARACTERS_MAX = 1024;
const STOP = `must be a text of 1 to ${STOP_CHARACTERS_MAX} whole characters, or a list of up to ${STOPS_MAX} of them`;
const STREAM_OPTIONS: KnownFields = {
  read: ["include_usage", "continuous_usage_stats"],
  ignored: ["include_obfuscation"],
};

/** null means the default, as OpenAI has it. */
const optional = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().transform((value) => value ?? undefined);
const flag = () => optional(z.boolean({ error: "must be true or false" }));
const whole = (least: number, most: number, problem: string) =>
  optional(z.int({ error: problem }).min(least, problem).max(most, problem));
const real = (least: number, most: number, problem: string) =>
  optional(z.number({ error: problem }).min(least, problem).max(most, problem));

const TOKEN_COUNT = "must be a whole number of at least 1";
const SEED = "must be a whole number between -(2^53 - 1) and 2^53 - 1";
const TOP_P = "must be a number above 0 and up to 1";
const LOGPROBS = `must be a whole number from 0 to ${TOP_LOGPROBS_MAX}`;
const SALT = `must be a text of 1 to ${SALT_CHARACTERS_MAX} whole characters`;

const common = {
  model: optional(z.string({ error: "must be the name of a model" })),
  max_tokens: whole(1, Number.MAX_SAFE_INTEGER, TOKEN_COUNT),
  temperature: real(0, 2, "must be a number from 0 to 2"),
  top_p: optional(z.number({ error: TOP_P }).gt(0, TOP_P).max(1, TOP_P)),
  seed: whole(-Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, SEED),
  stop: z.unknown().optional(),
  stream: flag(),
  stream_options: z.unknown().optional(),
  cache_salt: optional(
    z
      .string({ error: SALT })
      .min(1, SALT)
      .max(SALT_CHARACTERS_MAX, SALT)
      .refine((text) => text.isWellFormed(), SALT),
  ),
  ignore_eos: flag(),
  x_mooncake_kv: flag(),
  x_mooncake_no_reuse: flag(),
};

export const completionSchema = z.object({
  ...common,
  prompt: z.unknown().optional(),
  logprobs: whole(0, TOP_LOGPROBS_MAX, LOGPROBS),
});

export const chatSchema = z.object({
  ...common,
  messages: z.unknown().optional(),
  max_completion_tokens: whole(1, Number.MAX_SAFE_INTEGER, TOKEN_COUNT),
  logprobs: flag(),
  top_logprobs: whole(0, TOP_LOGPROBS_MAX, LOGPROBS),
});

export type CompletionBody = z.output<typeof completionSchema>;
export type ChatBody = z.output<typeof chatSchema>;
export type CommonBody = Pick<CompletionBody, keyof typeof common>;

/**
 * The body with its plain parameters checked; throws the first problem as a 400 that names the parameter. Lists and objects are
 * left as they came, for checks that stop at the first wrong element: a schema collects all of them.
 */
export function parseBody<Shape extends z.ZodRawShape>(
  schema: z.ZodObject<Shape>,
  body: unknown,
): z.output<z.ZodObject<Shape>> {
  const result = schema.safeParse(supportedParameters(body, Object.keys(schema.shape)));
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  if (issue === undefined) throw new ApiError(400, "The body is not valid.", "invalid_value");
  throw badParameter(issue.path.map(String).join("."), `${issue.message}.`);
}

/** A text or a list of them; nothing is an empty list. */
export function parseStops(stop: unknown): readonly string[] {
  if (stop === undefined || stop === null) return [];
  if (typeof stop === "string") return [stopText(stop, "stop")];
  if (!Array.isArray(stop) || stop.length > STOPS_MAX) throw badParameter("stop", `${STOP}.`);
  return stop.map((text: unknown, index) => stopText(text, `stop[${index}]`));
}

/** Half a surrogate pair would match inside of a character and cut it. */
function stopText(text: unknown, at: string): string {
  const fits = typeof text === "string" && text.length >= 1 && text.length <= STOP_CHARACTERS_MAX;
  if (!fits || !text.isWellFormed()) throw badParameter(at, `${STOP}.`);
  return text;
}

/** Whether a last chunk with the usage is wanted. */
export function parseStreamOptions(options: unknown, ignored: IgnoredField): boolean {
  const at = "stream_options";
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw badParameter(at, 'must be an object such as {"include_usage": true}.');
  }
  checkFields(options, STREAM_OPTIONS, { at, kind: at }, ignored);
  const given: Readonly<Record<string, unknown>> = { ...options };
  for (const name of STREAM_OPTIONS.read) {
    const value = given[name] ?? false;
    if (typeof value !== "boolean") throw badParameter(`${at}.${name}`, "must be true or false.");
  }
  if (given["continuous_usage_stats"] === true) {
    const problem = "is not supported here. Use include_usage.";
    throw badParameter(`${at}.continuous_usage_stats`, problem, "unsupported_parameter");
  }
  return given["include_usage"] === true;
}
