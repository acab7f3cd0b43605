/**
 * Goal: who may ask. Another site's page changes nothing and, on loopback, is not answered under a name of its own; with API keys
 * nobody uses the server without one; pages of allowed origins may.
 * Method: requests with every header that decides, over real HTTP (a browser's are forged: fetch does not let a page set them),
 * and the official client with a key.
 */
import { request as httpRequest, type OutgoingHttpHeaders } from "node:http";
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { AccessControl, type AccessOptions } from "../../src/serving/http/access/access.ts";
import type { CacheResetRequest } from "../../src/serving/cache-reset.ts";
import { collect, serve } from "./serving-http-support.ts";

interface Answer {
  readonly status: number;
  readonly code: string | null;
  readonly headers: NodeJS.Dict<string | string[]>;
}
type Ask = (method: string, path: string, headers?: OutgoingHttpHeaders) => Promise<Answer>;

/** A server with all routes, and how often its pool was emptied. */
async function guarded(access: AccessOptions & { host?: string } = {}, log: string[] = []) {
  let resets = 0;
  const served = await serve("ok", {
    server: {
      ...access,
      debugRoutes: true,
      resetCache: async (_request: CacheResetRequest) => {
        resets++;
        return { success: true, localBlocks: 0, poolKeys: 0 };
      },
      log: {
        debug: () => undefined,
        info: () => undefined,
        warn: (_fields, text) => log.push(text),
        error: () => undefined,
      },
    },
  });
  const { port } = served.server;
  const ask: Ask = (method, path, headers = {}) =>
    new Promise((resolve, reject) => {
      const options = { method, port, host: "127.0.0.1", path, headers, agent: false };
      const asked = httpRequest(options, (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (piece: string) => (text += piece));
        response.on("end", () => {
          const status = response.statusCode ?? 0;
          const error =
            text !== "" && status >= 400 ? (JSON.parse(text) as { error: { code: string } }) : null;
          resolve({ status, code: error?.error.code ?? null, headers: response.headers });
        });
      });
      asked.once("error", reject);
      asked.end();
    });
  return { ...served, port, ask, resets: () => resets };
}

const RESET = "/reset_prefix_cache?reset_external=true";

describe("web pages", () => {
  test.each<OutgoingHttpHeaders>([
    { origin: "http://evil.example" },
    { origin: "null" },
    { origin: "http://localhost:1" },
    { origin: "https://127.0.0.1" },
    { origin: "file://" },
    { origin: "http://127.0.0.1.evil.example:8000" },
    { origin: "garbage" },
    { origin: "" },
    { "sec-fetch-site": "cross-site" },
    { "sec-fetch-site": "same-site" },
    { "sec-fetch-site": "Cross-Site" },
    { "sec-fetch-site": "same-origin, cross-site" },
    { "sec-fetch-site": "a relation of tomorrow" },
    { origin: "http://evil.example", "sec-fetch-site": "same-origin" },
  ])("of other sites change nothing: %j", async (headers) => {
    const { ask, resets, port } = await guarded();
    const own = { host: `127.0.0.1:${port}`, ...headers };
    const paths = [RESET, "/v1/completions", "/v1/chat/completions", "/debug/drop_local_cache"];
    for (const path of paths)
      expect(await ask("POST", path, own)).toMatchObject({
        status: 403,
        code: "origin_not_allowed",
      });
    for (const method of ["PUT", "PATCH", "DELETE"])
      expect(await ask(method, "/v1/models", own)).toMatchObject({ status: 403 });
    expect(await ask("GET", "/debug/state", own)).toMatchObject({ status: 403 });
    expect(resets()).toBe(0);
    const read = await ask("GET", "/v1/models", own);
    expect(read.status).toBe(200);
    expect(read.headers).not.toHaveProperty("access-control-allow-origin");
  });

  test("a body of text/plain, which needs no preflight, is none that any route reads", async () => {
    const { ask, resets } = await guarded();
    const plain = { "content-type": "text/plain", "content-length": "0" };
    expect(await ask("POST", RESET, plain)).toMatchObject({ status: 415 });
    expect(resets()).toBe(0);
  });

  test("the server's own, and programs that are no browsers, may", async () => {
    const { ask, resets, port } = await guarded();
    const host = `localhost:${port}`;
    expect(await ask("POST", RESET)).toMatchObject({ status: 200 });
    expect(
      await ask("POST", RESET, { host, origin: `http://${host}`, "sec-fetch-site": "same-origin" }),
    ).toMatchObject({ status: 200 });
    expect(await ask("POST", RESET, { "sec-fetch-site": "none" })).toMatchObject({ status: 200 });
    expect(resets()).toBe(3);
  });

  test.each([
    ["https://app.example.org:443", "https://app.example.org"],
    ["http://App.example.org:80/", "http://app.example.org"],
    ["https://bücher.example", "https://xn--bcher-kva.example"],
    ["http://[0:0:0:0:0:0:0:1]:3000", "http://[::1]:3000"],
    ["chrome-extension://AbC", "chrome-extension://abc"],
  ])("an allowed origin %s is the %s that browsers send", async (allowed, origin) => {
    const { ask } = await guarded({ allowedOrigins: [allowed] });
    const page = { origin, "sec-fetch-site": "cross-site" };
    expect(await ask("POST", RESET, page)).toMatchObject({ status: 200 });
    expect(await ask("POST", RESET, { origin: `${origin}1` })).toMatchObject({ status: 403 });
  });

  test("of allowed origins may, after a preflight, and read errors and streams too", async () => {
    const origin = "https://app.example.org";
    const { ask, post, port } = await guarded({ allowedOrigins: [origin], apiKeys: ["k"] });
    const preflight = await ask("OPTIONS", "/v1/chat/completions", {
      origin,
      "sec-fetch-site": "cross-site",
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization,content-type,x-stainless-os",
      "access-control-request-private-network": "true",
    });
    expect(preflight).toMatchObject({
      status: 204,
      headers: {
        "access-control-allow-origin": origin,
        "access-control-allow-headers": "authorization,content-type,x-stainless-os",
        "access-control-allow-private-network": "true",
        vary: "origin",
      },
    });
    expect(preflight.headers["access-control-allow-methods"]).toContain("POST");
    const key = { authorization: "Bearer k" };
    const page = { origin, "sec-fetch-site": "cross-site" };
    const refused = await ask("POST", "/v1/completions", page);
    expect([refused.status, refused.headers["access-control-allow-origin"]]).toEqual([401, origin]);
    for (const stream of [false, true]) {
      const body = { prompt: "x", stream };
      const response = await post("/v1/completions", body, { ...page, ...key });
      expect([response.status, response.headers.get("access-control-allow-origin")]).toEqual([
        200,
        origin,
      ]);
      await response.text();
    }
    const other = {
      origin: "https://app.example.org:8443",
      "access-control-request-method": "POST",
    };
    expect(await ask("OPTIONS", "/v1/completions", other)).toMatchObject({ status: 403 });
    expect(await ask("OPTIONS", "/v1/completions", { host: `localhost:${port}` })).toMatchObject({
      status: 204,
      headers: { allow: "POST" },
    });
  });

  test("* allows any page", async () => {
    const { ask } = await guarded({ allowedOrigins: ["*"] });
    expect(await ask("POST", RESET, { origin: "null" })).toMatchObject({ status: 200 });
  });
});

describe("hosts", () => {
  test.each([
    "127.0.0.1",
    "127.8.9.1:80",
    "localhost",
    "LOCALHOST.:9",
    "[::1]:8000",
    "[::ffff:127.0.0.1]",
  ])("%s is this machine", async (host) => {
    const { ask } = await guarded();
    expect(await ask("GET", "/v1/models", { host })).toMatchObject({ status: 200 });
  });

  test.each([
    "evil.example",
    "evil.example:8000",
    "10.0.0.1",
    "[2001:db8::1]",
    "127.0.0.1.evil.example",
    "localhost@evil",
    "a b",
    "[::1",
    "localhost.evil.example",
    "0.0.0.0",
  ])("%s is not known on loopback, on any route", async (host) => {
    const { ask } = await guarded();
    for (const [method, path] of [
      ["GET", "/v1/models"],
      ["GET", "/metrics"],
      ["GET", "/health"],
      ["OPTIONS", "/v1/models"],
      ["POST", RESET],
      ["GET", "/nothing"],
    ] as const)
      expect(await ask(method, path, { host })).toMatchObject({
        status: 403,
        code: "host_not_allowed",
      });
  });

  test("--allowed-hosts names those of a proxy", async () => {
    const { ask } = await guarded({ allowedHosts: ["api.example.org", "*.box.lan", "fd00::7"] });
    const status = async (host: string): Promise<number> =>
      (await ask("GET", "/v1/models", { host })).status;
    for (const host of ["api.example.org:443", "API.example.org", "gpu1.box.lan", "[fd00::7]:80"])
      expect(await status(host)).toBe(200);
    for (const host of ["example.org", "box.lan", "evil.example", "xbox.lan"])
      expect(await status(host)).toBe(403);
    const https = { host: "api.example.org", origin: "https://api.example.org" };
    expect(await ask("POST", RESET, https)).toMatchObject({ status: 200 });
  });

  test("on another address names are open, unless a page of such a name wants to change something", () => {
    const access = new AccessControl({});
    expect(access.listensOn("0.0.0.0", "0.0.0.0")).toBe(false);
    const check = (method: string, headers: Record<string, string>) => () =>
      access.check({ method, route: "/v1/completions", headers });
    expect(check("POST", { host: "gpu1.example.org" })).not.toThrow();
    expect(check("POST", { host: "10.1.2.3:8000", origin: "http://10.1.2.3:8000" })).not.toThrow();
    const rebound = { host: "evil.example:8000", origin: "http://evil.example:8000" };
    expect(check("POST", rebound)).toThrow("--allowed-hosts");
    const silent = { host: "evil.example:8000", "sec-fetch-site": "same-origin" };
    expect(() => access.check({ method: "GET", route: "/debug/state", headers: silent })).toThrow(
      "--allowed-hosts",
    );
    const given = new AccessControl({ allowedHosts: ["gpu1.example.org"] });
    given.listensOn("::", "::");
    const named = (host: string) => () =>
      given.check({ method: "GET", route: "/v1/models", headers: { host } });
    for (const host of ["gpu1.example.org", "10.1.2.3", "localhost"])
      expect(named(host)).not.toThrow();
    expect(named("evil.example")).toThrow("--allowed-hosts");
  });
});

describe("API keys", () => {
  const keys = { apiKeys: ["first-key", "second-key"] };

  test("every route but /health and /metrics needs one", async () => {
    const { ask, resets } = await guarded(keys);
    for (const [method, path] of [
      ["POST", "/v1/completions"],
      ["POST", "/v1/chat/completions"],
      ["GET", "/v1/models"],
      ["HEAD", "/v1/models"],
      ["GET", "/debug/state"],
      ["POST", "/debug/drop_local_cache"],
      ["POST", RESET],
      ["POST", "/health"],
      ["GET", "/%68ealth2"],
      ["GET", "/health/../v1/models"],
    ] as const) {
      for (const authorization of [
        undefined,
        "",
        "Bearer",
        "Bearer wrong",
        "first-key",
        "Basic first-key",
        "Bearer first-key2",
      ]) {
        const answer = await ask(
          method,
          path,
          authorization === undefined ? {} : { authorization },
        );
        expect(answer.status).toBe(401);
        if (method !== "HEAD") expect(answer.code).toBe("invalid_api_key");
        expect(answer.headers["www-authenticate"]).toBe("Bearer");
      }
    }
    expect(resets()).toBe(0);
    for (const path of ["/health", "/metrics"])
      expect(await ask("GET", path)).toMatchObject({ status: 200 });
    for (const authorization of ["Bearer first-key", "bearer second-key"])
      expect(await ask("POST", RESET, { authorization })).toMatchObject({ status: 200 });
  });

  test("the official client shows it", async () => {
    const { server } = await guarded(keys);
    const client = (apiKey: string) =>
      new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
    expect(await collect(client("second-key").models.list())).toHaveLength(1);
    const asked = { model: "tiny", prompt: "x" };
    const answer = await client("first-key").completions.create(asked);
    expect(answer.choices[0]?.text).toBe("ok");
    const refused = client("other").completions.create(asked);
    await expect(refused).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
  });

  test("a large body is refused before it is read", async () => {
    const { post } = await guarded(keys);
    const response = await post("/v1/completions", "x".repeat(4_000_000));
    expect(response.status).toBe(401);
  });

  test.each([
    [{ apiKeys: [""] }, "--api-key: is empty"],
    [{ apiKeys: ["two words"] }, "--api-key: holds spaces"],
    [{ apiKeys: ["schlüssel"] }, "--api-key: holds spaces or other"],
    [{ allowedOrigins: ["app.example.org"] }, '"app.example.org" is no origin'],
    [{ allowedOrigins: ["http://a/b"] }, "--allowed-origins"],
    [{ allowedHosts: ["http://a"] }, '"http://a" is no host'],
    [{ allowedHosts: ["a.*.b"] }, "--allowed-hosts"],
    [{ allowedHosts: [""] }, "--allowed-hosts"],
  ])("%j is refused", (options: AccessOptions, text) => {
    expect(() => new AccessControl(options)).toThrow(text);
    expect(() => new AccessControl(options)).not.toThrow("two words");
  });

  test("a warning on another address without a key, none with one or on loopback", async () => {
    const warnings: string[] = [];
    await guarded({ host: "0.0.0.0" }, warnings);
    expect(warnings).toEqual([expect.stringContaining("--api-key or MOONCAKE_KV_API_KEY")]);
    await guarded({ host: "0.0.0.0", ...keys }, warnings);
    for (const host of ["localhost", "127.0.0.2"]) await guarded({ host }, warnings);
    expect(warnings).toHaveLength(1);
  });
});
