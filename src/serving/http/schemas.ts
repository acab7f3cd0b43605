import { z } from "zod";
import { TOP_LOGPROBS_MAX } from "../../blocks/layout.ts";
import { ApiError, badParameter } from "./errors.ts";
import { supportedParameters } from "./parameters.ts";

const STOPS_MAX = 4;
const STOP_CHARACTERS_MAX = 1024;
const SALT_CHARACTERS_MAX = 1024;
const MESSAGES_MAX = 4096;

/** null means the default, as OpenAI has it. */
const optional = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().transform((value) => value ?? undefined);
const flag = () => optional(z.boolean({ error: "must be true or false" }));
const whole = (least: number, most: number, problem: string) =>
  optional(z.int({ error: problem }).min(least, problem).max(most, problem));
const real = (least: number, most: number, problem: string) =>
  optional(z.number({ error: problem }).min(least, problem).max(most, problem));

const STOP = `must be a text of 1 to ${STOP_CHARACTERS_MAX} whole characters, or a list of up to ${STOPS_MAX} of them`;
/** Half a surrogate pair would match inside of a character and cut it. */
const stopText = z
  .string({ error: STOP })
  .min(1, STOP)
  .max(STOP_CHARACTERS_MAX, STOP)
  .refine((text) => text.isWellFormed(), STOP);
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
  stop: optional(z.union([stopText, z.array(stopText).max(STOPS_MAX, STOP)], { error: STOP })),
  stream: flag(),
  stream_options: optional(
    z.object(
      { include_usage: flag() },
      { error: 'must be an object such as {"include_usage": true}' },
    ),
  ),
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

const PROMPT = "must be a text, a list of token ids, or a list with one such prompt";
const TOKEN_ID = "must be a token id: a whole number from 0";
const tokenIds = z.array(z.int({ error: TOKEN_ID }).min(0, TOKEN_ID));

export const completionSchema = z.strictObject({
  ...common,
  prompt: z.union([z.string(), tokenIds, z.array(z.string()).min(1), z.array(tokenIds).min(1)], {
    error: PROMPT,
  }),
  logprobs: whole(0, TOP_LOGPROBS_MAX, LOGPROBS),
});

const MESSAGES = `must be a list of 1 to ${MESSAGES_MAX} messages such as {"role": "user", "content": "Hello"}`;

const message = z.looseObject(
  {
    role: z.string({ error: "must be system, developer, user or assistant" }),
    content: z
      .union([z.string(), z.null(), z.array(z.looseObject({ type: z.string() }))], {
        error: 'must be a text or a list of parts such as {"type": "text", "text": "Hello"}',
      })
      // chatMessages says what is missing; the schema library has words of its own for it.
      .optional(),
  },
  { error: "must be an object with role and content" },
);

export const chatSchema = z.strictObject({
  ...common,
  messages: z.array(message, { error: MESSAGES }).min(1, MESSAGES).max(MESSAGES_MAX, MESSAGES),
  max_completion_tokens: whole(1, Number.MAX_SAFE_INTEGER, TOKEN_COUNT),
  logprobs: flag(),
  top_logprobs: whole(0, TOP_LOGPROBS_MAX, LOGPROBS),
});

export type CompletionBody = z.output<typeof completionSchema>;
export type ChatBody = z.output<typeof chatSchema>;
export type ChatBodyMessage = ChatBody["messages"][number];
export type CommonBody = Pick<CompletionBody, keyof typeof common>;

/** The checked body; throws the first problem as a 400 that names the parameter. */
export function parseBody<Schema extends z.ZodType>(
  schema: Schema,
  body: unknown,
): z.output<Schema> {
  const result = schema.safeParse(supportedParameters(body));
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  if (issue === undefined) throw new ApiError(400, "The body is not valid.", "invalid_value");
  if (issue.code === "unrecognized_keys") {
    const param = [...issue.path, issue.keys[0] ?? ""].map(String).join(".");
    throw badParameter(param, "is no parameter of this API. Leave it out.", "unknown_parameter");
  }
  const missing = valueAt(body, issue.path) === undefined;
  throw badParameter(
    parameterPath(issue.path),
    missing ? `is missing; it ${issue.message}.` : `${issue.message}.`,
    missing ? "missing_parameter" : "invalid_value",
  );
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  let value = body;
  for (const part of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[part];
  }
  return value;
}

/** messages.0.role is written messages[0].role. */
function parameterPath(path: readonly PropertyKey[]): string {
  return path
    .map((part, index) => {
      if (typeof part === "number") return `[${part}]`;
      return index === 0 ? String(part) : `.${String(part)}`;
    })
    .join("");
}
