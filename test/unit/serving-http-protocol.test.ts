/**
 * Goal: whatever is wrong with a request as HTTP, as text or with its fields' names is told in OpenAI's error format, with the
 * status that fits; nothing is taken silently.
 * Method: raw bytes on a socket where no client library would send them, plain requests elsewhere.
 */
import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import type { OpenAiServerOptions } from "../../src/serving/server.ts";
import { serve } from "./serving-http-support.ts";

interface Wire {
  readonly status: number;
  readonly allow: string | undefined;
  readonly error: { message: string; type: string; param: string | null; code: string | null };
}

/** The first answer on a connection that sends these bytes and then waits. */
async function exchange(port: number, ...pieces: readonly (string | Buffer)[]): Promise<Wire> {
  const socket = connect(port, "127.0.0.1");
  const text = await new Promise<string>((resolve, reject) => {
    let received = "";
    socket.on("data", (data: Buffer) => {
      received += data.toString("latin1");
      if (/\r\n\r\n\{.*\}$/s.test(received)) resolve(received);
    });
    socket.once("close", () => resolve(received));
    socket.once("error", reject);
    for (const piece of pieces) socket.write(piece);
  });
  socket.destroy();
  const [head = "", body = ""] = text.split("\r\n\r\n");
  expect(head).toMatch(/content-type: application\/json/i);
  const { error, ...rest } = JSON.parse(body) as Wire;
  expect(rest).toEqual({});
  expect(Object.keys(error).toSorted()).toEqual(["code", "message", "param", "type"]);
  const [, allow] = /^allow: (.*)$/im.exec(head) ?? [];
  return { status: Number(head.split(" ", 2)[1]), allow: allow?.trim(), error };
}

const post = (body: Buffer, ...headers: readonly string[]): readonly (string | Buffer)[] => [
  [
    "POST /v1/completions HTTP/1.1",
    "Host: 127.0.0.1",
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
    ...headers,
    "",
    "",
  ].join("\r\n"),
  body,
];

describe("the wire", () => {
  test.each<[string, number, string, Partial<OpenAiServerOptions>?]>([
    ["GET /v1/models/%zz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400, "invalid_url"],
    ["GET /%80%zz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400, "invalid_url"],
    ["GET /v1/\x00models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400, "invalid_url"],
    ["GET /v1/models HTTP/1.1\r\n\r\n", 400, "invalid_request"],
    ["NONSENSE\r\n\r\n", 400, "invalid_request"],
    ["GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nbad header\r\n\r\n", 400, "invalid_request"],
    [
      `GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ${"x".repeat(20_000)}\r\n\r\n`,
      431,
      "headers_too_large",
    ],
    [
      `GET /v1/models/${"m".repeat(10_000)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`,
      404,
      "model_not_found",
    ],
    ["GET /v1/models HTTP/1.1\r\nHost: 127.0", 408, "request_timeout", { receiveTimeoutMs: 50 }],
    [
      'POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"prompt"',
      408,
      "request_timeout",
      { receiveTimeoutMs: 50 },
    ],
    [
      "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      400,
      "invalid_request",
    ],
  ])("%j: %i", async (bytes, status, code, options) => {
    const { server, world } = await serve("ok", options === undefined ? {} : { server: options });
    const answer = await exchange(server.port, bytes);
    expect([answer.status, answer.error.code]).toEqual([status, code]);
    expect(answer.error).toMatchObject({ type: "invalid_request_error" });
    expect(answer.error.message).not.toMatch(/FST_|HPE_|ERR_/);
    expect(world.slots.freeSlots).toBe(8);
    expect(await server.close(3_600_000)).toBe(true);
  });

  test.each([
    ["GET", "/v1/completions", "POST"],
    ["DELETE", "/v1/chat/completions?x=1", "POST"],
    ["POST", "/v1/models", "GET, HEAD"],
    ["PUT", "/v1/models/a/b", "GET, HEAD"],
    ["POST", "/health", "GET, HEAD"],
    ["GET", "/debug/drop_local_cache", "POST"],
    ["TRACE", "/metrics", "GET, HEAD"],
  ])("%s %s is 405, allowed are %s", async (method, path, allow) => {
    const { server } = await serve("ok", { server: { debugRoutes: true } });
    const answer = await exchange(
      server.port,
      `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`,
    );
    expect(answer).toMatchObject({ status: 405, allow, error: { code: "method_not_allowed" } });
  });

  test.each(["/v1/nothing", "/debug/state", "/reset_prefix_cache", "/v1/modelsx"])(
    "%s is unknown with every method",
    async (path) => {
      const { server } = await serve("ok");
      for (const method of ["GET", "POST", "OPTIONS"]) {
        const bytes = `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`;
        const answer = await exchange(server.port, bytes);
        expect(answer).toMatchObject({ status: 404, error: { code: "unknown_url" } });
      }
    },
  );
});

describe("texts", () => {
  test.each<[string, Buffer, string]>([
    ["a byte that begins nothing", Buffer.from([0xff]), "UTF-8"],
    ["half a character", Buffer.from([0xe2, 0x82]), "UTF-8"],
    ["an overlong form", Buffer.from([0xc0, 0x80]), "UTF-8"],
    ["a surrogate", Buffer.from([0xed, 0xa0, 0x80]), "UTF-8"],
  ])("%s is no UTF-8", async (_name, bytes, says) => {
    const { server, world } = await serve("ok");
    const body = Buffer.concat([Buffer.from('{"prompt":"'), bytes, Buffer.from('"}')]);
    const { status, error } = await exchange(server.port, ...post(body));
    expect([status, error.code]).toEqual([400, "invalid_json"]);
    expect(error.message).toContain(says);
    expect(world.slots.freeSlots).toBe(8);
  });

  test("a compressed body is none", async () => {
    const { server } = await serve("ok");
    const body = Buffer.from('{"prompt":"x"}');
    const { status, error } = await exchange(server.port, ...post(body, "Content-Encoding: gzip"));
    expect([status, error.code]).toEqual([415, "unsupported_media_type"]);
    expect(error.message).toContain("Content-Encoding");
  });

  test("a byte order mark before the JSON is none of it", async () => {
    const { post: ask } = await serve("ok");
    expect((await ask("/v1/completions", '\ufeff{"prompt":"x"}')).status).toBe(200);
  });

  test("deep JSON is refused where nothing reads it, too", async () => {
    const { post: ask } = await serve("ok", { server: { debugRoutes: true } });
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    for (const body of [deep, `{"user":${deep}}`, `{"prompt":"x","n":${deep}}`]) {
      for (const path of ["/v1/completions", "/v1/chat/completions", "/debug/drop_local_cache"]) {
        const response = await ask(path, body);
        expect(response.status).toBe(400);
        expect(await response.text()).toContain("inside each other");
      }
    }
  });
});

describe("names of fields", () => {
  const user = { role: "user", content: "x" };
  test.each<[string, string, string]>([
    ['{"prompt":"x","__proto__":{"n":2}}', "__proto__", "Leave it out"],
    ['{"prompt":"x","constructor":{"prototype":{}}}', "constructor", "Leave it out"],
    ['{"prompt":"x","temprature":1}', "temprature", "'temperature'"],
    ['{"prompt":"x","maxTokens":1}', "maxTokens", "'max_tokens'"],
    [
      '{"prompt":"x","stream":true,"stream_options":{"include_usge":true}}',
      "stream_options.include_usge",
      "'include_usage'",
    ],
    [
      '{"prompt":"x","stream":true,"stream_options":{"__proto__":1}}',
      "stream_options.__proto__",
      "",
    ],
    [
      '{"prompt":"x","stream":true,"stream_options":{"continuous_usage_stats":true}}',
      "stream_options.continuous_usage_stats",
      "include_usage",
    ],
    ['{"prompt":"x","response_format":{"type":"text","schema":{}}}', "response_format.schema", ""],
    [JSON.stringify({ messages: [user, { ...user, rol: "x" }] }), "messages[1].rol", "'role'"],
    [
      JSON.stringify({ messages: [{ ...user, contents: "x" }] }),
      "messages[0].contents",
      "'content'",
    ],
    ['{"messages":[{"role":"user","content":"x","__proto__":{}}]}', "messages[0].__proto__", ""],
    [
      JSON.stringify({
        messages: [{ role: "user", content: [{ type: "text", text: "x", txt: 1 }] }],
      }),
      "messages[0].content[0].txt",
      "'text'",
    ],
  ])("%s", async (body, param, says) => {
    const { post: ask } = await serve("ok");
    const path = body.startsWith('{"messages"') ? "/v1/chat/completions" : "/v1/completions";
    const response = await ask(path, body);
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as Wire;
    expect(error.param).toBe(param);
    expect(error.message).toContain(says);
  });

  test("what OpenAI's and vLLM's clients send without effect here is taken, and told once", async () => {
    const told: unknown[] = [];
    const log = {
      debug: () => undefined,
      info: () => undefined,
      warn: (fields: object) => told.push(fields),
      error: () => undefined,
    };
    const { post: ask } = await serve("ok", { server: { log } });
    const body = {
      messages: [
        { role: "assistant", content: "a", refusal: null, annotations: [], reasoning: "r" },
        {
          role: "user",
          name: "n",
          tool_calls: [],
          content: [{ type: "text", text: "x", cache_control: { type: "ephemeral" } }],
        },
      ],
      stream: true,
      stream_options: { include_obfuscation: false, continuous_usage_stats: false },
    };
    for (let round = 0; round < 2; round++)
      expect((await ask("/v1/chat/completions", body)).status).toBe(200);
    expect(told).toEqual(
      [
        "stream_options.include_obfuscation",
        "messages[].annotations",
        "messages[].reasoning",
        "messages[].content[].cache_control",
      ].map((field) => ({ field })),
    );
  });

  test("a reset that is misspelt is no success", async () => {
    let resets = 0;
    const resetCache = async () => {
      resets++;
      return { success: true as const, localBlocks: 0, poolKeys: 0 };
    };
    const { post: ask } = await serve("ok", { server: { resetCache } });
    const refused = [
      await ask("/reset_prefix_cache?reset_externl=true", {}),
      await ask("/reset_prefix_cache?reset_external=maybe", {}),
      await ask("/reset_prefix_cache", { reset_external: true }),
      await ask("/reset_prefix_cache", '"reset_external=true"'),
      await ask("/reset_prefix_cache", "[true]"),
      await ask("/reset_prefix_cache", true),
    ];
    for (const response of refused) expect(response.status).toBe(400);
    expect(await refused[0]?.text()).toContain("'reset_external'");
    expect(await refused[2]?.text()).toContain("?reset_external=true");
    expect(resets).toBe(0);
    expect((await ask("/reset_prefix_cache?reset_external=true", {})).status).toBe(200);
    expect(resets).toBe(1);
    // What clients send that have nothing to say.
    for (const body of ["", "{}", "null", '""'])
      expect((await ask("/reset_prefix_cache", body)).status).toBe(200);
    expect(resets).toBe(5);
  });

  test("an empty body is none where one is needed", async () => {
    const { post: ask } = await serve("ok");
    for (const path of ["/v1/completions", "/v1/chat/completions"]) {
      const response = await ask(path, "");
      expect(response.status).toBe(400);
      expect(((await response.json()) as Wire).error).toMatchObject({
        code: "invalid_json",
        message: "The body is empty. Send a JSON object.",
      });
    }
  });

  test.each([
    '{"\\ud800":1}',
    '{"\\udfff\\ud800":[[]]}',
    `{"${"k".repeat(79)}😀":1}`,
    `{"\\ud800":${"[".repeat(65)}}`,
    `{"${"k".repeat(98)}😀😀":${"[".repeat(65)}}`,
    '{"prompt":["\\ud800",1]}',
    '{"prompt":"x","response_format":{"type":"text","\\ud800":1}}',
    '{"prompt":"x","tools":"\\ud800"}',
    '{"prompt":"x","model":"\\ud800"}',
    `{"prompt":"x" "${"😀".repeat(50)}"`,
  ])("an error shows whole characters only: %s", async (body) => {
    const { post: ask } = await serve("ok");
    const response = await ask("/v1/completions", body);
    expect([400, 404]).toContain(response.status);
    const { error } = (await response.json()) as Wire;
    expect(error.message.isWellFormed()).toBe(true);
    expect((error.param ?? "").isWellFormed()).toBe(true);
  });

  test("a name that is no text is not left out silently", async () => {
    const { post: ask } = await serve("ok");
    const named = (name: unknown) => ask("/v1/chat/completions", { messages: [{ ...user, name }] });
    expect((await named(null)).status).toBe(200);
    for (const name of [5, {}, ["n"], false]) {
      const response = await named(name);
      expect(response.status).toBe(400);
      expect(((await response.json()) as Wire).error.param).toBe("messages[0].name");
    }
  });
});
