/**
 * Goal: every bad input gets OpenAI's error format with a status, the parameter's name and a remedy; nothing is started.
 * Method: one bad request each over real HTTP; the slots stay untouched.
 */
import { describe, expect, test } from "vitest";
import { OpenAiServer } from "../../src/serving/server.ts";
import { PromptEncoder } from "../../src/serving/tokenizing/prompt-encoder.ts";
import { serve, tokenizer } from "./serving-http-support.ts";

interface ErrorAnswer {
  readonly error: { message: string; type: string; param: string | null; code: string | null };
}
const errorOf = async (response: Response): Promise<ErrorAnswer["error"]> => {
  const body = (await response.json()) as ErrorAnswer;
  expect(Object.keys(body)).toEqual(["error"]);
  expect(Object.keys(body.error).toSorted()).toEqual(["code", "message", "param", "type"]);
  return body.error;
};

const chat = (more: object) => ({ messages: [{ role: "user", content: "x" }], ...more });

describe("bad parameters", () => {
  test.each<[object, string, string]>([
    [{}, "prompt", "missing_parameter"],
    [{ prompt: 7 }, "prompt", "invalid_value"],
    [{ prompt: ["a", "b"] }, "prompt", "unsupported_parameter"],
    [{ prompt: [] }, "prompt", "invalid_value"],
    [{ prompt: [1, 512] }, "prompt", "invalid_value"],
    [{ prompt: [1, -1] }, "prompt[1]", "invalid_value"],
    [{ prompt: [1, 2.5] }, "prompt", "invalid_value"],
    [{ prompt: "x", n: 2 }, "n", "unsupported_parameter"],
    [{ prompt: "x", best_of: 3 }, "best_of", "unsupported_parameter"],
    [{ prompt: "x", echo: true }, "echo", "unsupported_parameter"],
    [{ prompt: "x", suffix: "y" }, "suffix", "unsupported_parameter"],
    [{ prompt: "x", presence_penalty: 0.5 }, "presence_penalty", "unsupported_parameter"],
    [{ prompt: "x", top_k: 5 }, "top_k", "unsupported_parameter"],
    [{ prompt: "x", logit_bias: { 5: 1 } }, "logit_bias", "unsupported_parameter"],
    [{ prompt: "x", temperature: -1 }, "temperature", "invalid_value"],
    [{ prompt: "x", temperature: "hot" }, "temperature", "invalid_value"],
    [{ prompt: "x", top_p: 0 }, "top_p", "invalid_value"],
    [{ prompt: "x", top_p: 1.5 }, "top_p", "invalid_value"],
    [{ prompt: "x", seed: 1.5 }, "seed", "invalid_value"],
    [{ prompt: "x", max_tokens: 0 }, "max_tokens", "invalid_value"],
    [{ prompt: "x", logprobs: 21 }, "logprobs", "invalid_value"],
    [{ prompt: "x", logprobs: true }, "logprobs", "invalid_value"],
    [{ prompt: "x", stop: "" }, "stop", "invalid_value"],
    [{ prompt: "x", stop: ["a", "b", "c", "d", "e"] }, "stop", "invalid_value"],
    [{ prompt: "x", stop: "\udc4b" }, "stop", "invalid_value"],
    [{ prompt: "x", stop: ["a", "a\ud83d"] }, "stop[1]", "invalid_value"],
    [{ prompt: "x", stream: "yes" }, "stream", "invalid_value"],
    [{ prompt: "x", stream_options: { include_usage: true } }, "stream_options", "invalid_value"],
    [{ prompt: "x", cache_salt: "" }, "cache_salt", "invalid_value"],
    [{ prompt: "x", cache_salt: "\ud800" }, "cache_salt", "invalid_value"],
    [{ prompt: "x", frobnicate: 1 }, "frobnicate", "unknown_parameter"],
    [{ prompt: "x", model: "other" }, "model", "model_not_found"],
    [{ prompt: "x".repeat(200) }, "prompt", "context_length_exceeded"],
    [{ prompt: "x".repeat(20_000) }, "prompt", "context_length_exceeded"],
    [{ prompt: "x", max_tokens: 199 }, "max_tokens", "context_length_exceeded"],
  ])("completions: %j", async (body, param, code) => {
    const { world, post } = await serve("ok");
    const response = await post("/v1/completions", body);
    expect(response.status).toBe(code === "model_not_found" ? 404 : 400);
    const error = await errorOf(response);
    expect(error).toMatchObject({ type: "invalid_request_error", param, code });
    expect(error.message.length).toBeGreaterThan(20);
    expect(world.slots.freeSlots).toBe(8);
  });

  test.each<[object, string, string]>([
    [{}, "messages", "missing_parameter"],
    [{ messages: [] }, "messages", "invalid_value"],
    [{ messages: "hi" }, "messages", "invalid_value"],
    [{ messages: ["hi"] }, "messages[0]", "invalid_value"],
    [{ messages: [{ content: "x" }] }, "messages[0].role", "missing_parameter"],
    [{ messages: [{ role: "tool", content: "x" }] }, "messages[0].role", "invalid_value"],
    [{ messages: [{ role: "user" }] }, "messages[0].content", "missing_parameter"],
    [{ messages: [{ role: "user", content: 5 }] }, "messages[0].content", "invalid_value"],
    [
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] },
      "messages[0].content[0]",
      "unsupported_parameter",
    ],
    [
      { messages: [{ role: "assistant", content: "x", tool_calls: [{}] }] },
      "messages[0].tool_calls",
      "unsupported_parameter",
    ],
    [chat({ tools: [{ type: "function" }] }), "tools", "unsupported_parameter"],
    [
      chat({ response_format: { type: "json_object" } }),
      "response_format",
      "unsupported_parameter",
    ],
    [chat({ top_logprobs: 2 }), "top_logprobs", "invalid_value"],
    [chat({ logprobs: 2 }), "logprobs", "invalid_value"],
    [chat({ logprobs: true, top_logprobs: 21 }), "top_logprobs", "invalid_value"],
    [chat({ max_completion_tokens: 500 }), "max_completion_tokens", "context_length_exceeded"],
    [
      { messages: [{ role: "user", content: "x".repeat(200) }] },
      "messages",
      "context_length_exceeded",
    ],
    [
      { messages: [{ role: "user", content: "x".repeat(20_000) }] },
      "messages",
      "context_length_exceeded",
    ],
    [chat({ prompt: "x" }), "prompt", "unknown_parameter"],
  ])("chat: %j", async (body, param, code) => {
    const { world, post } = await serve("ok");
    const response = await post("/v1/chat/completions", body);
    expect(response.status).toBe(400);
    expect(await errorOf(response)).toMatchObject({ param, code });
    expect(world.slots.freeSlots).toBe(8);
  });
});

describe("bad bodies and addresses", () => {
  test("what is no JSON, no object, too large, or another media type", async () => {
    const { post } = await serve("ok", { server: { bodyBytesMax: 1000 } });
    const ask = async (body: string, headers = {}) => {
      const response = await post("/v1/completions", body, headers);
      return [response.status, (await errorOf(response)).code];
    };
    expect(await ask('{"prompt": "x"')).toEqual([400, "invalid_json"]);
    expect(await ask("")).toEqual([400, "invalid_json"]);
    expect(await ask("[]")).toEqual([400, "invalid_type"]);
    expect(await ask("null")).toEqual([400, "invalid_type"]);
    expect(await ask(JSON.stringify({ prompt: "x".repeat(1000) }))).toEqual([
      413,
      "request_too_large",
    ]);
    expect(await ask("prompt=x", { "content-type": "application/x-www-form-urlencoded" })).toEqual([
      415,
      "unsupported_media_type",
    ]);
  });

  test("unknown addresses and models", async () => {
    const { get, post } = await serve("ok");
    expect((await get("/v1/nothing")).status).toBe(404);
    expect(await errorOf(await get("/v1/models/other/one"))).toMatchObject({
      code: "model_not_found",
    });
    expect((await post("/debug/drop_local_cache", {})).status).toBe(404);
  });

  test("a port in use and an address of another machine are clear errors", async () => {
    const { server, world } = await serve("ok");
    const options = {
      frontEnd: world.frontEnd,
      model: {
        modelName: "tiny",
        tokenizer,
        prompts: new PromptEncoder(tokenizer),
        contextTokensMax: 10,
      },
      healthy: () => true,
      engineState: () => "open",
      resetCache: null,
      membership: () => ({ membership: "open" as const, differences: [], keyDifferences: [] }),
      dumpState: () => Promise.resolve({}),
      metrics: { contentType: "text/plain", text: () => Promise.resolve("") },
      random: () => 0,
      wallClockMs: () => 0,
      debugRoutes: false,
      log: { debug() {}, info() {}, warn() {}, error() {} },
    };
    await expect(OpenAiServer.start({ ...options, port: server.port })).rejects.toMatchObject({
      code: "INVALID_VALUE",
      field: "port",
      value: server.port,
    });
    await expect(
      OpenAiServer.start({ ...options, port: 0, host: "192.0.2.1" }),
    ).rejects.toMatchObject({ field: "host" });
  });
});

describe("failures behind the server", () => {
  test("no room: 503 with Retry-After, the others go on", async () => {
    const { world, post } = await serve("ok", {
      requestSlots: 1,
      limits: { queuedRequestsMax: 1 },
    });
    world.scheduler.hold = true;
    const first = post("/v1/completions", { prompt: "x" });
    await expect.poll(() => world.frontEnd.liveRequests).toBe(1);
    const second = post("/v1/completions", { prompt: "x" });
    await expect.poll(() => world.frontEnd.queuedRequests).toBe(1);
    const third = await post("/v1/completions", { prompt: "x", stream: true });
    expect(third.status).toBe(503);
    expect(third.headers.get("retry-after")).toBe("1");
    expect(await errorOf(third)).toMatchObject({ type: "server_error", code: "server_overloaded" });
    world.scheduler.hold = false;
    world.scheduler.wake();
    expect([(await first).status, (await second).status]).toEqual([200, 200]);
  });

  test("waiting too long for a slot: 503, streamed or not", async () => {
    const { world, post } = await serve("ok", { requestSlots: 1, limits: { queueTimeoutMs: 5 } });
    world.scheduler.hold = true;
    void post("/v1/completions", { prompt: "x" }).catch(() => undefined);
    await expect.poll(() => world.frontEnd.liveRequests).toBe(1);
    for (const stream of [false, true]) {
      const response = await post("/v1/completions", { prompt: "x", stream });
      expect(response.status).toBe(503);
      expect(await errorOf(response)).toMatchObject({ code: "server_overloaded" });
    }
  });

  test.each([0, 1])("an error after %i tokens: 500, or an event that says so", async (tokens) => {
    const { world, post } = await serve("");
    world.scheduler.hold = true;
    for (const stream of [false, true]) {
      const pending = post("/v1/completions", { prompt: "x", stream });
      await expect.poll(() => world.scheduler.running).toHaveLength(1);
      const [running] = world.scheduler.running;
      if (tokens === 1) world.scheduler.token(running!, 0x61);
      world.scheduler.finish(running!, 4);
      const response = await pending;
      if (tokens === 0 || !stream) {
        expect(response.status).toBe(500);
        expect(await errorOf(response)).toMatchObject({
          type: "server_error",
          code: "generation_failed",
        });
      } else {
        const events = (await response.text()).split("\n\n");
        expect(events).toHaveLength(4);
        const failure = JSON.parse(events[1]?.slice("data: ".length) ?? "") as ErrorAnswer;
        expect(failure.error).toMatchObject({ code: "generation_failed", param: null });
        expect(events[2]).toBe("data: [DONE]");
      }
    }
  });
});
