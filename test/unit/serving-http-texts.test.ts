/**
 * Goal: a client reads our words in every 400 answer: which parameter, what it must be. The schema library's own texts (about
 * types and unions) never get out.
 * Method: every parameter of both routes with twenty wrong values, alone and inside of lists.
 */
import { expect, test } from "vitest";
import { parseChat, parseCompletion } from "../../src/serving/http/answer-request.ts";
import { ApiError } from "../../src/serving/http/errors.ts";
import { chatSchema, completionSchema } from "../../src/serving/http/schemas.ts";
import { PromptEncoder } from "../../src/serving/tokenizing/prompt-encoder.ts";
import { tokenizer } from "./serving-http-support.ts";

const LONG = "x".repeat(2000);
const VALUES: readonly unknown[] = [
  null,
  "",
  0,
  -1,
  1.5,
  1e300,
  true,
  [],
  {},
  LONG,
  [null],
  [""],
  [{}],
  ["a", 1],
  [[]],
  [[""]],
  [[-1]],
  [LONG],
  [[1], ["a"]],
  ["a", "b", "c", "d", "e"],
];
const COMPLETION = Object.keys(completionSchema.shape);
const CHAT = Object.keys(chatSchema.shape);
const MESSAGES = [{ role: "user", content: "Hello" }];

const BODIES: readonly (readonly ["completions" | "chat", object])[] = [
  ...COMPLETION.flatMap((name) =>
    VALUES.map((value) => ["completions", { prompt: "a", [name]: value }] as const),
  ),
  ...CHAT.flatMap((name) =>
    VALUES.map((value) => ["chat", { messages: MESSAGES, [name]: value }] as const),
  ),
  ...VALUES.flatMap((value) =>
    [
      { messages: [value] },
      { messages: [{ role: value, content: "a" }] },
      { messages: [{ role: "user", content: value }] },
      { messages: [{ role: "user", content: [value] }] },
      { messages: [{ role: "user", content: [{ type: value }] }] },
      { messages: [{ role: "user", content: [{ type: "text", text: value }] }] },
      { messages: MESSAGES, stream_options: { include_usage: value } },
    ].map((body) => ["chat", body] as const),
  ),
  ["chat", { messages: [{ role: "user" }] }],
  ["chat", { messages: [{ content: "a" }] }],
  ["chat", {}],
  ["completions", {}],
];

const model = {
  modelName: "tiny",
  tokenizer,
  prompts: new PromptEncoder(tokenizer),
  contextTokensMax: 100_000,
};
const world = { model, random: () => 0.5, ignored: () => undefined };

async function refusalOf(route: "completions" | "chat", body: object): Promise<ApiError | null> {
  try {
    await (route === "completions" ? parseCompletion(body, world) : parseChat(body, world));
    return null;
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
}

test(`${BODIES.length} bodies: every refusal is in our words and names a parameter`, async () => {
  const all = await Promise.all(BODIES.map(([route, body]) => refusalOf(route, body)));
  const refusals = all.filter((refusal) => refusal !== null);
  expect(refusals.length).toBeGreaterThan(BODIES.length / 2);
  for (const { message, param, status } of refusals) {
    expect(status === 404 ? param : status).toBe(status === 404 ? "model" : 400);
    expect(message).not.toMatch(/invalid input|expected|received|too (small|big)/i);
    expect(message).toMatch(
      /^'[^']+': (must|is missing|is no|a part of|needs|holds|token id|.*not supported)|^(The|This) model|^'[^']+': is not/,
    );
    expect(param).toBeTruthy();
  }
});

test("a message without content, and an empty stop, in particular", async () => {
  const content = await refusalOf("chat", { messages: [{ role: "user" }] });
  expect(content?.message).toBe(`'messages[0].content': is missing. Give a text, "" for none.`);
  const stop = await refusalOf("completions", { prompt: "a", stop: "" });
  expect(stop?.message).toMatch(/^'stop': must be a text of 1 to 1024 whole characters/);
  const second = await refusalOf("completions", { prompt: "a", stop: ["b", ""] });
  expect(second?.param).toBe("stop[1]");
});
