/**
 * Goal: answers of both endpoints, whole and streamed, have the shapes that OpenAI's clients read.
 * Method: the official `openai` client over real HTTP, a scheduler double and the byte tokenizer behind the server.
 */
import { describe, expect, test } from "vitest";
import { COUNTERS, CounterReader, familyOffset } from "../../src/trace/counters.ts";
import { HISTOGRAM_FAMILIES } from "../../src/trace/families.ts";
import { bytesOf, collect, serve, tokenizer } from "./serving-http-support.ts";

describe("completions", () => {
  test("whole answer with usage", async () => {
    const { world, client } = await serve("Hello");
    world.scheduler.localTokens = 2;
    world.scheduler.poolTokens = 3;
    const answer = await client.completions.create({ model: "tiny", prompt: "Say hello" });
    expect(answer).toEqual({
      id: "cmpl-800000008000000080000000",
      object: "text_completion",
      created: 1_700_000_000,
      model: "tiny",
      choices: [{ index: 0, text: "Hello", logprobs: null, finish_reason: "stop" }],
      usage: {
        prompt_tokens: 10,
        completion_tokens: 5,
        total_tokens: 15,
        prompt_tokens_details: { cached_tokens: 5 },
      },
    });
    expect(world.slots.requests[0]).toMatchObject({
      tokensMax: 26,
      flags: 0,
      sampling: { temperature: 1, topP: 1, seed: 0x4000_0000, logprobs: -1 },
    });
  });

  test.each([
    ["text", "hi"],
    ["list of one text", ["hi"]],
    ["token ids", [256, 0x68, 0x69]],
    ["list of one list of token ids", [[256, 0x68, 0x69]]],
  ])("a prompt may be a %s", async (_name, prompt) => {
    const { world, client } = await serve("ok");
    await client.completions.create({ model: "tiny", prompt });
    expect(Array.from(world.slots.requests[0]!.tokens)).toEqual([256, 0x68, 0x69]);
  });

  test("sampling parameters reach the slot; fields without effect are taken", async () => {
    const { world, post } = await serve("ok");
    const response = await post("/v1/completions", {
      prompt: "hi",
      max_tokens: 7,
      temperature: 0,
      top_p: 0.25,
      seed: -5,
      logprobs: null,
      stop: null,
      n: 1,
      user: "somebody",
      presence_penalty: 0,
      logit_bias: null,
      kv_transfer_params: { do_remote_prefill: false },
      ignore_eos: true,
      x_mooncake_no_reuse: true,
      cache_salt: "tenant",
    });
    expect(response.status).toBe(200);
    const [slot] = world.slots.requests;
    expect(slot).toMatchObject({ tokensMax: 10, flags: 3 });
    expect(slot!.sampling).toEqual({ temperature: 0, topP: 0.25, seed: -5, logprobs: -1 });
    expect(slot!.extras).not.toBeNull();
  });

  test("max_tokens ends with length", async () => {
    const { client } = await serve("Hello world");
    const answer = await client.completions.create({ model: "tiny", prompt: "x", max_tokens: 5 });
    expect(answer.choices[0]).toMatchObject({ text: "Hello", finish_reason: "length" });
  });

  test("log-probabilities: names, values, the chosen token among the top ones, offsets", async () => {
    const { client } = await serve("aé");
    const answer = await client.completions.create({ model: "tiny", prompt: "x", logprobs: 2 });
    expect(answer.choices[0]?.logprobs).toEqual({
      tokens: ["a", "bytes:\\xc3", "bytes:\\xa9"],
      token_logprobs: [-0.5, -1.5, -2.5],
      top_logprobs: [
        { a: -0.5, b: -1.5 },
        { "bytes:\\xc3": -1.5, "bytes:\\xc4": -2.5 },
        { "bytes:\\xa9": -2.5, "bytes:\\xaa": -3.5 },
      ],
      text_offset: [0, 1, 1],
    });
  });

  test("stream: pieces, one end, usage last", async () => {
    const { client } = await serve("né😀");
    const stream = await client.completions.create({
      model: "tiny",
      prompt: "x",
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await collect(stream);
    expect(chunks.map(({ choices }) => choices[0]?.text)).toEqual(["n", "é", "😀", "", undefined]);
    expect(chunks.map(({ choices }) => choices[0]?.finish_reason ?? null)).toEqual([
      null,
      null,
      null,
      "stop",
      null,
    ]);
    expect(chunks.map(({ usage }) => usage?.completion_tokens ?? null)).toEqual([
      null,
      null,
      null,
      null,
      7,
    ]);
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
  });

  test("stop strings over token borders: cut alike whole and streamed, the rest is not generated", async () => {
    const { world, client } = await serve("one<e>two<end>three");
    const asked = { model: "tiny", prompt: "x", max_tokens: 50, stop: ["<end>", "never"] };
    const whole = await client.completions.create(asked);
    expect(whole.choices[0]).toMatchObject({ text: "one<e>two", finish_reason: "stop" });
    expect(whole.usage?.completion_tokens).toBe("one<e>two<end>".length);
    const stream = await client.completions.create({ ...asked, stream: true, logprobs: 0 });
    let [text, tokens] = ["", 0];
    for await (const { choices } of stream) {
      text += choices[0]?.text;
      tokens += choices[0]?.logprobs?.tokens?.length ?? 0;
      expect("one<e>two".startsWith(text)).toBe(true);
    }
    expect([text, tokens]).toEqual(["one<e>two", 9]);
    expect(world.scheduler.received.filter(({ kind }) => kind === "abortRequest")).toHaveLength(2);
    expect(world.slots.freeSlots).toBe(8);
  });
});

describe("chat", () => {
  test("whole answer; roles and parts become the template's messages", async () => {
    const { world, client } = await serve("Hi!");
    const answer = await client.chat.completions.create({
      model: "tiny",
      messages: [
        { role: "developer", content: "Be brief" },
        {
          role: "user",
          content: [
            { type: "text", text: "Hello" },
            { type: "text", text: "there" },
          ],
        },
        { role: "assistant", content: "" },
      ],
    });
    expect(answer).toMatchObject({
      object: "chat.completion",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "Hi!", refusal: null },
          logprobs: null,
          finish_reason: "stop",
        },
      ],
    });
    expect(answer.id).toMatch(/^chatcmpl-/);
    const [slot] = world.slots.requests;
    const expected = tokenizer.encodeChat([
      { role: "system", content: "Be brief" },
      { role: "user", content: "Hello\nthere" },
      { role: "assistant", content: "" },
    ]);
    expect(Array.from(slot!.tokens)).toEqual([...expected]);
    // Without a limit the answer may fill the context.
    expect(slot!.tokensMax).toBe(200);
  });

  test("the end token ends the answer and shows nowhere", async () => {
    const { world, client } = await serve("");
    world.scheduler.answerTo = () => [...bytesOf("ok"), tokenizer.endTokenIds[1]!, 0x61];
    const answer = await client.chat.completions.create({
      model: "tiny",
      messages: [{ role: "user", content: "x" }],
      max_completion_tokens: 20,
      logprobs: true,
    });
    expect(answer.choices[0]).toMatchObject({ message: { content: "ok" }, finish_reason: "stop" });
    expect(answer.choices[0]?.logprobs?.content).toHaveLength(2);
    expect(answer.usage?.completion_tokens).toBe(3);
  });

  test("stream with log-probabilities: role first, pieces, end", async () => {
    const { client } = await serve("aé");
    const stream = await client.chat.completions.create({
      model: "tiny",
      messages: [{ role: "user", content: "x" }],
      stream: true,
      logprobs: true,
      top_logprobs: 1,
    });
    const choices = (await collect(stream)).map((chunk) => chunk.choices[0]);
    expect(choices.map((choice) => choice?.delta)).toEqual([
      { role: "assistant", content: "" },
      { content: "a" },
      { content: "é" },
      {},
    ]);
    expect(choices[2]?.logprobs?.content).toEqual([
      {
        token: "bytes:\\xc3",
        logprob: -1.5,
        bytes: [0xc3],
        top_logprobs: [{ token: "bytes:\\xc3", logprob: -1.5, bytes: [0xc3] }],
      },
      {
        token: "bytes:\\xa9",
        logprob: -2.5,
        bytes: [0xa9],
        top_logprobs: [{ token: "bytes:\\xa9", logprob: -2.5, bytes: [0xa9] }],
      },
    ]);
    expect(choices.at(-1)?.finish_reason).toBe("stop");
  });

  test("the answer to a token that was never announced has its text and no log-probability", async () => {
    const { world, client } = await serve("");
    world.scheduler.hold = true;
    const pending = client.chat.completions.create({
      model: "tiny",
      messages: [{ role: "user", content: "x" }],
      logprobs: true,
    });
    await expect.poll(() => world.scheduler.running).toHaveLength(1);
    const [running] = world.scheduler.running;
    world.scheduler.token(running!, 0x61);
    world.scheduler.token(running!, 0x62, false);
    world.scheduler.token(running!, 0x63);
    world.scheduler.finish(running!, 1);
    const answer = await pending;
    expect(answer.choices[0]?.message.content).toBe("abc");
    expect(answer.choices[0]?.logprobs?.content?.map(({ logprob }) => logprob)).toEqual([
      -0.5,
      null,
      -2.5,
    ]);
  });
});

describe("extension and metrics", () => {
  test("x_mooncake_kv is there when asked for, whole and streamed", async () => {
    const { world, post, client } = await serve("ok");
    world.scheduler.localTokens = 1;
    world.scheduler.poolTokens = 2;
    const body = { prompt: "hello", x_mooncake_kv: true };
    const expected = {
      logits_hash: "00001234ffffffff",
      ttft_ms: 0,
      local_tokens: 1,
      pool_tokens: 2,
      lookup_outcome: "HIT",
      tokens_computed: 3,
      preemptions: 0,
    };
    const whole: unknown = await (await post("/v1/completions", body)).json();
    expect(whole).toHaveProperty("x_mooncake_kv", expected);
    const stream = await client.completions.create({ ...body, model: "tiny", stream: true });
    const chunks = await collect(stream);
    expect(chunks.at(-1)).toHaveProperty("x_mooncake_kv", expected);
    expect(chunks.filter((chunk) => "x_mooncake_kv" in chunk)).toHaveLength(1);
    const plain: unknown = await (await post("/v1/completions", { prompt: "hello" })).json();
    expect(plain).not.toHaveProperty("x_mooncake_kv");
  });

  test("time to first token and latency are observed and scraped", async () => {
    const { world, client, get } = await serve("");
    world.scheduler.hold = true;
    const pending = client.completions.create({ model: "tiny", prompt: "x" });
    await expect.poll(() => world.scheduler.running).toHaveLength(1);
    const [running] = world.scheduler.running;
    world.nowMs += 30;
    world.scheduler.token(running!, 0x61);
    const reader = new CounterReader(world.counterBuffer);
    const { timeToFirstToken } = HISTOGRAM_FAMILIES;
    // Buckets of 1, 5, 10, 20, 40 ms: 30 ms lies in the fifth.
    await expect.poll(() => reader.sum(familyOffset(timeToFirstToken) + 4)).toBe(1);
    world.nowMs += 1470;
    world.scheduler.finish(running!, 1);
    await pending;
    const response = await get("/metrics");
    const text = await response.text();
    expect(response.headers.get("content-type")).toContain("text/plain");
    const labels = 'model_name="tiny",engine="0"';
    expect(text).toContain(`vllm:time_to_first_token_seconds_sum{${labels}} 0.03`);
    expect(text).toContain(`vllm:e2e_request_latency_seconds_sum{${labels}} 1.5`);
    expect(world.counters.value(COUNTERS.staleMessages + 5)).toBe(0);
  });
});
