/** Bodies of the HTTP server. Whatever is refused is a 400 that says what is wrong. */
import { parseJsonBody } from "../../../src/serving/http/json-body.ts";
import { ApiError } from "../../../src/serving/http/errors.ts";
import {
  chatSchema,
  completionSchema,
  parseBody,
  parseStops,
} from "../../../src/serving/http/schemas.ts";
import type { Attempt, Target } from "../attack.ts";
import { mutateBytes, mutateValue } from "../mutate.ts";

const COMMON = {
  model: "tiny",
  stream: false,
  temperature: 0,
  top_p: 1,
  seed: 1,
  n: 1,
  stop: ["a"],
};
const COMPLETION = { ...COMMON, prompt: [1, 2, 3], max_tokens: 4, logprobs: 1 };
const CHAT = {
  ...COMMON,
  messages: [
    { role: "system", content: "be brief" },
    { role: "user", content: [{ type: "text", text: "hello" }] },
  ],
  max_completion_tokens: 4,
};

function bodies(
  name: string,
  good: unknown,
  schema: typeof completionSchema | typeof chatSchema,
): Target {
  const read = (bytes: Uint8Array): void => {
    try {
      const body = parseBody(schema as typeof completionSchema, parseJsonBody(bytes));
      parseStops(body.stop);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status >= 500) throw error;
      if (!/\w{3}/.test(error.message) || error.code === null)
        throw new Error(`says too little: ${error.message}`, { cause: error });
    }
  };
  const bytes = Buffer.from(JSON.stringify(good));
  return {
    name,
    open: () => ({
      try: (random): Attempt => {
        const body =
          random.below(2) === 0
            ? mutateBytes(bytes, random)
            : Buffer.from(JSON.stringify(mutateValue(good, random)) ?? "");
        return { input: body.toString("latin1"), bytes: body.length, run: () => read(body) };
      },
      heal: () => void parseBody(schema as typeof completionSchema, parseJsonBody(bytes)),
    }),
  };
}

export const HTTP_BODIES: readonly Target[] = [
  bodies("bodies of completions", COMPLETION, completionSchema),
  bodies("bodies of chats", CHAT, chatSchema),
];
