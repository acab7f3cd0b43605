/**
 * Goal: no body of the allowed size holds up the server: beyond decoding and JSON.parse it costs a few milliseconds a megabyte,
 * whatever its shape, and the refusal is short and names the parameter.
 * Method: bodies of 1 and 8 MB of many shapes through the parsers of the routes, with a limit a hundred times above what they
 * take; schemas that collect every wrong element went beyond it.
 */
import { expect, test } from "vitest";
import { parseChat, parseCompletion } from "../../src/serving/http/answer-request.ts";
import { ApiError } from "../../src/serving/http/errors.ts";
import { parseJsonBody } from "../../src/serving/http/json-body.ts";
import { PromptEncoder } from "../../src/serving/tokenizing/prompt-encoder.ts";
import { serve, tokenizer } from "./serving-http-support.ts";

const model = {
  modelName: "tiny",
  tokenizer,
  prompts: new PromptEncoder(tokenizer),
  contextTokensMax: 8192,
};
const world = { model, random: () => 0.5, ignored: () => undefined };
const MEGABYTE = 1024 * 1024;
const HANG_MS = 10_000;

/** As many of `item` as make up the size, between `head` and `tail`. */
function filled(bytes: number, head: string, item: string, tail: string): string {
  return head + `${item},`.repeat(Math.floor(bytes / (item.length + 1)) - 1) + item + tail;
}

type Shape = readonly [name: string, build: (bytes: number) => string, param: string];
const message = (content: string) => `{"messages":[{"role":"user","content":${content}`;
const nested = (bytes: number) => "[".repeat(bytes / 2) + "]".repeat(bytes / 2);
const keys = (bytes: number, name: string) =>
  Array.from({ length: bytes / 16 }, (_, index) => `"${name}${1e6 + index}":1`).join(",");

const COMPLETIONS: readonly Shape[] = [
  ["objects as prompt", (bytes) => filled(bytes, '{"prompt":[', "{}", "]}"), "prompt"],
  ["lists as prompt", (bytes) => filled(bytes, '{"prompt":[', "[]", "]}"), "prompt"],
  ["texts as prompt", (bytes) => filled(bytes, '{"prompt":[', '""', "]}"), "prompt"],
  ["nulls as prompt", (bytes) => filled(bytes, '{"prompt":[', "null", "]}"), "prompt"],
  ["numbers as prompt", (bytes) => filled(bytes, '{"prompt":[', "1", "]}"), "prompt"],
  ["numbers in a list", (bytes) => filled(bytes, '{"prompt":[[', "1", "]]}"), "prompt"],
  ["infinities", (bytes) => filled(bytes, '{"prompt":[', "1e999", "]}"), "prompt"],
  ["fractions", (bytes) => filled(bytes, '{"prompt":[', "1.5", "]}"), "prompt"],
  ["a wrong one last", (bytes) => filled(bytes, '{"prompt":[', "1", ',{"a":1}]}'), "prompt"],
  ["depth", (bytes) => `{"prompt":${nested(bytes)}}`, "prompt"],
  ["depth in what is ignored", (bytes) => `{"metadata":${nested(bytes)}}`, "metadata"],
  ["depth in what is refused", (bytes) => `{"prompt":"x","tools":${nested(bytes)}}`, "tools"],
  ["a long text", (bytes) => `{"prompt":"${"x".repeat(bytes)}"}`, "prompt"],
  ["escapes", (bytes) => `{"prompt":"${"\\u0041".repeat(bytes / 6)}"}`, "prompt"],
  ["a long number", (bytes) => `{"prompt":"x","seed":${"1".repeat(bytes)}}`, "seed"],
  ["unknown parameters", (bytes) => `{"prompt":"x",${keys(bytes, "key")}}`, "key"],
  ["a long name", (bytes) => `{"prompt":"x","${"k".repeat(bytes)}":1}`, "k"],
  ["a long model", (bytes) => `{"prompt":"x","model":"${"m".repeat(bytes)}"}`, "model"],
  ["stop texts", (bytes) => filled(bytes, '{"prompt":"x","stop":[', '"a"', "]}"), "stop"],
  ["stop objects", (bytes) => filled(bytes, '{"prompt":"x","stop":[', "{}", "]}"), "stop"],
  ["a long stop", (bytes) => `{"prompt":"x","stop":"${"x".repeat(bytes)}"}`, "stop"],
  ["logit_bias", (bytes) => `{"prompt":"x","logit_bias":{${keys(bytes, "1")}}}`, "logit_bias"],
  ["tools", (bytes) => filled(bytes, '{"prompt":"x","tools":[', "0", "]}"), "tools"],
  ["a salt", (bytes) => `{"prompt":"x","cache_salt":"${"s".repeat(bytes)}"}`, "cache_salt"],
];
const CHATS: readonly Shape[] = [
  ["objects as messages", (bytes) => filled(bytes, '{"messages":[', "{}", "]}"), "messages"],
  ["texts as messages", (bytes) => filled(bytes, '{"messages":[', '""', "]}"), "messages"],
  ["nulls as parts", (bytes) => filled(bytes, message("["), "null", "]}]}"), "messages[0]"],
  ["numbers as parts", (bytes) => filled(bytes, message("["), "1", "]}]}"), "messages[0]"],
  [
    "parts",
    (bytes) => filled(bytes, message("["), '{"type":"text","text":"x"}', "]}]}"),
    "messages",
  ],
  ["a long text", (bytes) => `${message(`"${"x".repeat(bytes)}"`)}}]}`, "messages"],
  [
    "a long role",
    (bytes) => `{"messages":[{"role":"${"r".repeat(bytes)}","content":""}]}`,
    "messages[0].role",
  ],
  ["many fields", (bytes) => `${message('"x"')},${keys(bytes, "f")}}]}`, "messages"],
];

const CASES = [
  ...COMPLETIONS.map((shape) => [1, parseCompletion, ...shape] as const),
  ...CHATS.map((shape) => [1, parseChat, ...shape] as const),
  ...[...COMPLETIONS, ...CHATS]
    .filter(([name]) => /^(objects|numbers as prompt|depth$|unknown|parts$)/.test(name))
    .map((shape) => [8, CHATS.includes(shape) ? parseChat : parseCompletion, ...shape] as const),
];

test.each(CASES.map((each) => [`${each[0]} MB, ${each[1].name}: ${each[2]}`, each] as const))(
  "%s",
  async (_name, [megabytes, parse, , build, param]) => {
    const bytes = Buffer.from(build(megabytes * MEGABYTE));
    const start = performance.now();
    let refusal: unknown;
    try {
      await parse(parseJsonBody(bytes), world);
    } catch (error) {
      refusal = error;
    }
    expect(performance.now() - start).toBeLessThan(HANG_MS);
    if (!(refusal instanceof ApiError)) throw new Error("was not refused", { cause: refusal });
    expect([400, 404]).toContain(refusal.status);
    expect(refusal.param?.startsWith(param)).toBe(true);
    expect(refusal.message.length).toBeLessThan(500);
    expect(refusal.param?.length).toBeLessThan(200);
  },
);

test("over HTTP: others are answered meanwhile, and nothing is kept", async () => {
  const { post, get } = await serve("ok");
  const [, build] = COMPLETIONS[0]!;
  const text = build(8 * MEGABYTE - 1024);
  const large = Array.from({ length: 4 }, () => post("/v1/completions", text));
  expect((await get("/health")).status).toBe(200);
  for (const response of await Promise.all(large)) {
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param: "prompt" } });
  }
});

test("the limits leave room for large requests that are right", async () => {
  const whole = { ...world, model: { ...model, contextTokensMax: 5_000_000 } };
  const numbers = parseJsonBody(Buffer.from(filled(MEGABYTE, '{"prompt":[', "1", "]}")));
  const { request } = await parseCompletion(numbers, whole);
  expect(request.promptTokens).toHaveLength(MEGABYTE / 2);
  const part = '{"type":"text","text":"x"}';
  const one = `{"role":"user","content":[${Array.from({ length: 4 }, () => part).join(",")}]}`;
  const messages = `{"messages":[${Array.from({ length: 4096 }, () => one).join(",")}]}`;
  const chat = await parseChat(parseJsonBody(Buffer.from(messages)), whole);
  expect(chat.request.promptTokens.length).toBeGreaterThan(4 * 4096);
});
