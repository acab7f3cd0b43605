/**
 * Goal: a chat application built on the official `openai` client works turn by turn, and reuse shows in its usage.
 * Method: the whole server with the generated model. What one answer looks like is tested next door (serving-openai); here it
 * is what an application does: conversations, the client's stream helper, many at once, its retries and its errors.
 */
import OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Application } from "../../src/serving/application.ts";
import { settled } from "./support/gauges.ts";
import { dropLocalCache } from "./support/pool.ts";
import { startServing } from "./support/serving.ts";

type Message = OpenAI.Chat.ChatCompletionMessageParam;

const SYSTEM: Message = {
  role: "system",
  content: "You are the librarian of a small town. Answer in one sentence. ".repeat(4),
};
const BLOCK = 16;

let application: Application;
let client: OpenAI;

beforeAll(async () => {
  ({ application } = await startServing(
    {},
    { http: { host: "127.0.0.1", port: 0, debugRoutes: false } },
  ));
  client = new OpenAI({ baseURL: `${application.server?.url ?? ""}/v1`, apiKey: "none" });
});
afterAll(async () => {
  expect(await application.stop()).toBe(0);
});

test("each turn of a conversation reuses the turns before, also after the local cache is gone", async () => {
  const messages: Message[] = [SYSTEM];
  let before = 0;
  for (const question of ["Which books do you have?", "And for children?", "Thank you!"]) {
    messages.push({ role: "user", content: question });
    const asked = { model: "tiny", messages, temperature: 0, max_completion_tokens: 12 };
    const answer = await client.chat.completions.create(asked);
    const { prompt_tokens: prompt = 0, prompt_tokens_details: details } = answer.usage ?? {};
    // All whole blocks of the last turn's prompt; its answer's text may become other tokens.
    expect(details?.cached_tokens).toBeGreaterThanOrEqual(before - (before % BLOCK));
    await dropLocalCache(application);
    const again = await client.chat.completions.create(asked);
    expect(again.choices[0]?.message).toEqual(answer.choices[0]?.message);
    expect(again.usage?.prompt_tokens_details?.cached_tokens).toBe(
      BLOCK * Math.floor((prompt - 1) / BLOCK),
    );
    before = prompt;
    messages.push({ role: "assistant", content: answer.choices[0]?.message.content ?? "" });
  }
});

test("the client's stream helper puts the same answer together, with its usage", async () => {
  const asked = {
    model: "tiny",
    messages: [SYSTEM, { role: "user" as const, content: "Who wrote Momo?" }],
    temperature: 0,
    max_completion_tokens: 30,
    logprobs: true,
  };
  const whole = await client.chat.completions.create(asked);
  const stream = client.chat.completions.stream({
    ...asked,
    stream_options: { include_usage: true },
  });
  let deltas = "";
  stream.on("content", (delta) => (deltas += delta));
  const final = await stream.finalChatCompletion();
  expect(final.choices[0]?.message.content).toBe(whole.choices[0]?.message.content);
  expect(deltas).toBe(whole.choices[0]?.message.content);
  expect(final.choices[0]?.finish_reason).toBe(whole.choices[0]?.finish_reason);
  expect(final.choices[0]?.logprobs?.content).toEqual(whole.choices[0]?.logprobs?.content);
  expect(final.usage?.completion_tokens).toBe(whole.usage?.completion_tokens);
  expect(final.usage?.prompt_tokens_details?.cached_tokens).toBeGreaterThan(0);
});

test("forty conversations at once, streamed and whole, answer as each alone", async () => {
  const asked = (index: number): OpenAI.Chat.ChatCompletionCreateParamsNonStreaming => ({
    model: "tiny",
    messages: [SYSTEM, { role: "user", content: `Shelf ${index}?` }],
    temperature: 1,
    seed: index,
    max_completion_tokens: 16,
  });
  const text = async (index: number, streamed: boolean): Promise<string> => {
    if (!streamed)
      return (await client.chat.completions.create(asked(index))).choices[0]?.message.content ?? "";
    const stream = await client.chat.completions.create({ ...asked(index), stream: true });
    let all = "";
    for await (const chunk of stream) all += chunk.choices[0]?.delta.content ?? "";
    return all;
  };
  const indexes = Array.from({ length: 40 }, (_, index) => index);
  const together = await Promise.all(indexes.map((index) => text(index, index % 2 === 0)));
  const alone: string[] = [];
  for (const index of indexes) alone.push(await text(index, index % 2 === 1));
  expect(together).toEqual(alone);
  expect(new Set(together).size).toBeGreaterThan(20);
  await settled(application);
});

test("an aborted stream ends with the client's own error and leaves nothing", async () => {
  const controller = new AbortController();
  const stream = await client.completions.create(
    { model: "tiny", prompt: "Once", max_tokens: 900, stream: true },
    { signal: controller.signal },
  );
  let chunks = 0;
  for await (const chunk of stream) {
    chunks += chunk.choices.length;
    controller.abort();
  }
  expect(chunks).toBeLessThan(900);
  await settled(application);
});

test("errors name the parameter; the client does not retry them", async () => {
  const messages: Message[] = [{ role: "user", content: "Hello" }];
  const wrong = [
    [{ temperature: -1 }, "temperature"],
    [{ n: 2 }, "n"],
    [{ top_logprobs: 99, logprobs: true }, "top_logprobs"],
    [{ max_completion_tokens: 0 }, "max_completion_tokens"],
  ] as const;
  for (const [parameters, param] of wrong) {
    const call = client.chat.completions.create({ model: "tiny", messages, ...parameters });
    await expect(call).rejects.toBeInstanceOf(OpenAI.BadRequestError);
    await expect(call).rejects.toMatchObject({ status: 400, param, type: "invalid_request_error" });
  }
});
