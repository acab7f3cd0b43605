/**
 * Goal: the official `openai` client works against a whole server, and answers are bit-equal cold, from local blocks and from
 * the pool, alone and in batches.
 * Method: the generated model on real actor threads, addon and local engine; the hash of the first token's raw logits in the
 * extension field is compared, next to the text.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type OpenAI from "openai";
import type { Application } from "../../src/serving/application.ts";
import { ask, clientOf, dropLocalCache, scraped, startTiny } from "./serving-support.ts";

let application: Application;
let client: OpenAI;

beforeAll(async () => {
  application = await startTiny();
  client = clientOf(application);
});
afterAll(async () => {
  expect(await application.stop()).toBe(0);
});

const PROMPT = "The quick brown fox jumps over the lazy dog. ".repeat(5);

describe("reuse", () => {
  test("cold, from local blocks and from the pool: equal bits, told apart in the usage", async () => {
    const cold = await ask(client, PROMPT);
    const promptTokens = PROMPT.length + 1;
    expect(cold.field).toMatchObject({
      local_tokens: 0,
      pool_tokens: 0,
      tokens_computed: promptTokens,
      lookup_outcome: "MISS",
    });
    const local = await ask(client, PROMPT);
    expect(local.field.local_tokens).toBeGreaterThanOrEqual(
      16 * Math.floor(promptTokens / 16) - 16,
    );
    expect(local.cached).toBe(local.field.local_tokens + local.field.pool_tokens);
    // Saves run behind the answers; a block that is still being saved is not dropped.
    await expect
      .poll(() => scraped(application, "mooncake_kv_pool_keys"), { timeout: 120_000 })
      .toBeGreaterThanOrEqual(Math.floor(promptTokens / 16));
    await expect
      .poll(() => scraped(application, "mooncake_kv_pinned_blocks"), { timeout: 120_000 })
      .toBe(0);
    expect(await dropLocalCache(application)).toBeGreaterThan(0);
    const pool = await ask(client, PROMPT);
    expect(pool.field).toMatchObject({ lookup_outcome: "HIT", local_tokens: 0 });
    expect(pool.field.pool_tokens).toBeGreaterThan(0);
    expect(pool.field.pool_tokens + pool.field.tokens_computed).toBe(promptTokens);
    const alone = await ask(client, PROMPT, { x_mooncake_no_reuse: true });
    expect(alone.field).toMatchObject({ local_tokens: 0, pool_tokens: 0 });
    for (const answer of [local, pool, alone]) {
      expect(answer.text).toBe(cold.text);
      expect(answer.field.logits_hash).toBe(cold.field.logits_hash);
    }
  });

  test("another salt reuses nothing and answers the same", async () => {
    const plain = await ask(client, `salted ${PROMPT}`);
    const first = await ask(client, `salted ${PROMPT}`, { cache_salt: "a" });
    const again = await ask(client, `salted ${PROMPT}`, { cache_salt: "a" });
    expect(first.cached).toBe(0);
    expect(again.cached).toBeGreaterThan(0);
    expect(new Set([plain, first, again].map(({ field }) => field.logits_hash)).size).toBe(1);
  });

  test("requests of one batch answer as each alone", async () => {
    const prompts = Array.from(
      { length: 12 },
      (_, index) => `${index}: ${PROMPT.slice(index * 7)}`,
    );
    const together = await Promise.all(prompts.map((prompt) => ask(client, prompt)));
    for (const [index, prompt] of prompts.entries()) {
      const alone = await ask(client, prompt, { x_mooncake_no_reuse: true });
      expect(alone.text).toBe(together[index]!.text);
      expect(alone.field.logits_hash).toBe(together[index]!.field.logits_hash);
    }
  });
});

describe("the official client", () => {
  test("models, health and metrics", async () => {
    expect((await client.models.list()).data.map(({ id }) => id)).toEqual(["tiny"]);
    const response = await fetch(`${application.server?.url ?? ""}/health`);
    expect(response.status).toBe(200);
    expect(await scraped(application, "vllm:time_to_first_token_seconds_count")).toBeGreaterThan(0);
  });

  test("chat, whole and streamed, with usage and log-probabilities", async () => {
    const asked = {
      model: "tiny",
      messages: [{ role: "user" as const, content: "Tell me something" }],
      temperature: 0,
      max_completion_tokens: 20,
      logprobs: true,
      top_logprobs: 3,
    };
    const whole = await client.chat.completions.create(asked);
    const [choice] = whole.choices;
    const entries = choice?.logprobs?.content ?? [];
    expect(entries.length).toBeGreaterThan(0);
    for (const { token, logprob, top_logprobs: top } of entries) {
      expect(logprob).toBeLessThanOrEqual(0);
      // Greedy: the chosen token is the likeliest.
      expect(top).toHaveLength(3);
      expect(top[0]).toMatchObject({ token, logprob });
    }
    const stream = await client.chat.completions.create({
      ...asked,
      stream: true,
      stream_options: { include_usage: true },
    });
    let [text, usage] = ["", 0];
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage?.completion_tokens ?? usage;
    }
    expect(text).toBe(choice?.message.content);
    expect(usage).toBe(whole.usage?.completion_tokens);
  });

  test("a seed decides a sampled answer; a stop string cuts it", async () => {
    const sampled = { temperature: 1.5, max_tokens: 24 };
    const first = await ask(client, "Once", { ...sampled, seed: 11 });
    const again = await ask(client, "Once", { ...sampled, seed: 11 });
    const other = await ask(client, "Once", { ...sampled, seed: 12 });
    expect(again.text).toBe(first.text);
    expect(other.text).not.toBe(first.text);
    const stop = first.text.slice(5, 8);
    const cut = await ask(client, "Once", { ...sampled, seed: 11, stop });
    expect(cut.text).toBe(first.text.slice(0, first.text.indexOf(stop)));
  });

  test("errors are the client's own error classes", async () => {
    const { BadRequestError, NotFoundError } = await import("openai");
    const ofModel = client.completions.create({ model: "other", prompt: "x" });
    await expect(ofModel).rejects.toThrow(NotFoundError);
    const tooLong = client.completions.create({ model: "tiny", prompt: "x".repeat(2000) });
    await expect(tooLong).rejects.toThrow(BadRequestError);
    await expect(tooLong).rejects.toMatchObject({ code: "context_length_exceeded" });
  });

  test("a client that leaves frees what it used", async () => {
    const asked = { model: "tiny", prompt: "x", max_tokens: 900, ignore_eos: true };
    const stream = await client.completions.create({ ...asked, stream: true });
    for await (const chunk of stream) {
      if (chunk.choices.length > 0) break;
    }
    stream.controller.abort();
    await expect.poll(() => application.frontEnd.idle(), { timeout: 120_000 }).toBe(true);
    expect(await scraped(application, "mooncake_kv_request_slots_in_use")).toBe(0);
  });
});
