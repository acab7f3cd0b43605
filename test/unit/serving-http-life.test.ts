/**
 * Goal: clients that leave free what they used; health, models and the debug route answer; shutdown drains within its limit.
 * Method: real connections that are cut; a held scheduler; close() with running and new requests.
 */
import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { PromptEncoder } from "../../src/serving/tokenizing/prompt-encoder.ts";
import { collect, serve, tokenizer } from "./serving-http-support.ts";

const body = (more: object = {}) => JSON.stringify({ prompt: "x", max_tokens: 100, ...more });

describe("a client that leaves", () => {
  test.each([false, true])("aborts its request (stream: %j)", async (stream) => {
    const { world, server } = await serve("");
    world.scheduler.hold = true;
    const leaving = new AbortController();
    const pending = fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: body({ stream }),
      signal: leaving.signal,
    });
    await expect.poll(() => world.scheduler.running).toHaveLength(1);
    world.scheduler.token(world.scheduler.running[0]!, 0x61);
    if (stream) await pending;
    leaving.abort();
    if (!stream) await expect(pending).rejects.toThrow();
    await expect.poll(() => world.frontEnd.idle()).toBe(true);
    expect(world.scheduler.received.at(-1)).toMatchObject({ kind: "abortRequest" });
    expect(world.slots.freeSlots).toBe(8);
  });

  test("takes all requests of its connection with it, also those whose turn has not come", async () => {
    const { world, server } = await serve("", { requestSlots: 4 });
    world.scheduler.hold = true;
    const socket = connect(server.port, "127.0.0.1");
    socket.on("error", () => undefined);
    const request = (stream: boolean): string => {
      const text = body({ stream });
      return `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`;
    };
    socket.write(Array.from({ length: 40 }, (_, index) => request(index % 2 === 0)).join(""));
    await expect.poll(() => world.frontEnd.queuedRequests).toBe(36);
    expect(world.scheduler.running).toHaveLength(4);
    for (const running of world.scheduler.running) world.scheduler.token(running, 0x61);
    socket.resetAndDestroy();
    await expect.poll(() => world.frontEnd.idle()).toBe(true);
    expect(world.slots.freeSlots).toBe(4);
    // Nobody is waited for: a limit of an hour is not needed.
    expect(await server.close(3_600_000)).toBe(true);
  });

  test("leaves the line when it waits for a slot", async () => {
    const { world, server } = await serve("", { requestSlots: 1 });
    world.scheduler.hold = true;
    const leaving = new AbortController();
    const ask = (signal?: AbortSignal): Promise<unknown> =>
      fetch(`${server.url}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: body(),
        ...(signal === undefined ? {} : { signal }),
      }).catch(() => undefined);
    void ask();
    await expect.poll(() => world.frontEnd.liveRequests).toBe(1);
    void ask(leaving.signal);
    await expect.poll(() => world.frontEnd.queuedRequests).toBe(1);
    leaving.abort();
    await expect.poll(() => world.frontEnd.queuedRequests).toBe(0);
    expect(world.frontEnd.liveRequests).toBe(1);
  });

  test("one that does not read is given up, not buffered without end", async () => {
    const { world, server } = await serve("", {
      tokensPerRequestMax: 200_000,
      server: {
        model: {
          modelName: "tiny",
          tokenizer,
          prompts: new PromptEncoder(tokenizer),
          contextTokensMax: 200_000,
        },
      },
    });
    world.scheduler.hold = true;
    const socket = connect(server.port, "127.0.0.1");
    const text = body({ stream: true, max_tokens: 150_000 });
    socket.write(
      `POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
    );
    socket.pause();
    socket.on("error", () => undefined);
    await expect.poll(() => world.scheduler.running).toHaveLength(1);
    const [running] = world.scheduler.running;
    let sent = 0;
    while (world.scheduler.running.length > 0 && sent < 150_000) {
      for (let count = 0; count < 500; count++, sent++) world.scheduler.token(running!, 0x61);
      await new Promise(setImmediate);
    }
    await expect.poll(() => world.frontEnd.idle()).toBe(true);
    expect(sent).toBeLessThan(150_000);
    socket.destroy();
  });
});

describe("other routes", () => {
  test("models", async () => {
    const { client } = await serve("");
    const models = await collect(client.models.list());
    expect(models).toEqual([
      {
        id: "tiny",
        object: "model",
        created: 1_700_000_000,
        owned_by: "mooncake-kv",
        max_model_len: 200,
      },
    ]);
    expect(await client.models.retrieve("tiny")).toEqual(models[0]);
  });

  test("health follows the actors", async () => {
    let healthy = true;
    const { get } = await serve("", { server: { healthy: () => healthy } });
    expect((await get("/health")).status).toBe(200);
    healthy = false;
    const response = await get("/health");
    expect([response.status, await response.json()]).toEqual([
      503,
      { status: "unhealthy", engine: "open", pool: "open" },
    ]);
  });

  test("the local cache is dropped where the server was started with it", async () => {
    const { post } = await serve("", { server: { debugRoutes: true } });
    expect(await (await post("/debug/drop_local_cache", {})).json()).toEqual({ blocks: 7 });
  });
});

describe("shutdown", () => {
  test("running requests end, new ones are refused, then the port is closed", async () => {
    const { world, server, post } = await serve("");
    world.scheduler.hold = true;
    const running = post("/v1/completions", { prompt: "x" });
    await expect.poll(() => world.scheduler.running).toHaveLength(1);
    const closed = server.close(10_000);
    const late = await post("/v1/completions", { prompt: "x" });
    expect(late.status).toBe(503);
    world.scheduler.token(world.scheduler.running[0]!, 0x61);
    world.scheduler.finish(world.scheduler.running[0]!, 1);
    expect(await (await running).json()).toMatchObject({ choices: [{ text: "a" }] });
    expect(await closed).toBe(true);
    await expect(post("/v1/completions", { prompt: "x" })).rejects.toThrow("fetch failed");
  });

  test("after the time limit running requests are aborted: an error, not a short answer", async () => {
    const { world, server, post } = await serve("");
    world.scheduler.hold = true;
    const running = [false, true].map((stream) => post("/v1/completions", { prompt: "x", stream }));
    await expect.poll(() => world.scheduler.running).toHaveLength(2);
    for (const request of world.scheduler.running) world.scheduler.token(request, 0x61);
    await running[1];
    expect(await server.close(20)).toBe(false);
    const [whole, streamed] = await Promise.all(running);
    expect(whole?.status).toBe(500);
    expect(await whole?.json()).toMatchObject({ error: { code: "shutting_down" } });
    const events = (await streamed?.text())?.split("\n\n") ?? [];
    expect(events.slice(-3)).toEqual([
      expect.stringContaining('data: {"error":{"message":"The server is shutting down'),
      "data: [DONE]",
      "",
    ]);
    expect(world.frontEnd.idle()).toBe(true);
    expect(await server.close(20)).toBe(false);
  });
});
