/**
 * Goal: a client reads our words in every 400 answer: which parameter, what it must be. The schema library's own texts (about
 * types and unions) never get out.
 * Method: every parameter of both routes with twenty wrong values, alone and inside of lists.
 */
import { expect, test } from "vitest";
import { chatMessages } from "../../src/serving/http/chat-messages.ts";
import { ApiError } from "../../src/serving/http/errors.ts";
import { chatSchema, completionSchema, parseBody } from "../../src/serving/http/schemas.ts";

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

function refusalOf(route: "completions" | "chat", body: object): ApiError | null {
  try {
    if (route === "completions") parseBody(completionSchema, body);
    else chatMessages(parseBody(chatSchema, body).messages);
    return null;
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
}

test(`${BODIES.length} bodies: every refusal is in our words and names a parameter`, () => {
  const refusals = BODIES.map(([route, body]) => refusalOf(route, body)).filter(
    (refusal) => refusal !== null,
  );
  expect(refusals.length).toBeGreaterThan(BODIES.length / 2);
  for (const { message, param, status } of refusals) {
    expect(status).toBe(400);
    expect(message).not.toMatch(/invalid input|expected|received|too (small|big)|undefined/i);
    expect(message).toMatch(/^'[^']+': (must be|is missing|is no|a part of|.*not supported)/);
    expect(param).toBeTruthy();
  }
});

test("a message without content, and an empty stop, in particular", () => {
  const content = refusalOf("chat", { messages: [{ role: "user" }] });
  expect(content?.message).toBe(`'messages[0].content': is missing. Give a text, "" for none.`);
  const stop = refusalOf("completions", { prompt: "a", stop: "" });
  expect(stop?.message).toMatch(/^'stop': must be a text of 1 to 1024 whole characters/);
  expect(refusalOf("completions", { prompt: "a", stop: ["b", ""] })?.param).toBe("stop[1]");
});
