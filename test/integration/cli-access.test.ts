/**
 * Goal: `serve` takes keys, origins and hosts from its options and its environment, refuses what is none before it loads a model,
 * and never prints a key.
 * Method: the compiled command line as a child process.
 */
import { request } from "node:http";
import { expect, test } from "vitest";
import { startCli, startServe } from "./support/child.ts";

function statusOf(url: string, headers: Readonly<Record<string, string>>): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request(`${url}/v1/models`, { headers, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    asked.once("error", reject);
    asked.end();
  });
}

test("keys, hosts and origins of the command line; a key of the environment counts when none is given", async () => {
  const environment = { MOONCAKE_KV_API_KEY: "from-the-environment" };
  const access = ["--allowed-hosts", "api.example.org,other.example.org", "--allowed-origins"];
  const [given, fallen] = await Promise.all([
    startServe(
      [...access, '["https://a.example"]', "--api-key", "first-key", "second-key", "--no-pool"],
      environment,
    ),
    startServe(["--host", "0.0.0.0", "--no-pool"], environment),
  ]);
  const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
  expect(await statusOf(given.url, bearer("first-key"))).toBe(200);
  expect(await statusOf(given.url, { ...bearer("second-key"), host: "other.example.org" })).toBe(
    200,
  );
  expect(await statusOf(given.url, { ...bearer("first-key"), host: "evil.example" })).toBe(403);
  for (const headers of [{}, bearer("from-the-environment")])
    expect(await statusOf(given.url, headers)).toBe(401);
  const page = { ...bearer("first-key"), origin: "https://a.example" };
  const answer = await fetch(`${given.url}/v1/models`, { headers: page });
  expect(answer.headers.get("access-control-allow-origin")).toBe("https://a.example");
  const other = fallen.url.replace("0.0.0.0", "127.0.0.1");
  expect(await statusOf(other, bearer("from-the-environment"))).toBe(200);
  expect(await statusOf(other, {})).toBe(401);
  for (const { child } of [given, fallen]) {
    child.process.kill("SIGTERM");
    expect(await child.exit).toEqual({ code: 0, signal: null });
    expect(child.errors()).not.toMatch(/first-key|from-the-environment|without an API key/);
  }
});

test("what is none is refused before a model is looked for", async () => {
  const refusals: readonly (readonly [args: readonly string[], says: string, key?: string])[] = [
    [["--api-key", ""], "--api-key: is empty"],
    [["--api-key", "two words"], "--api-key: holds spaces"],
    [[], "--api-key: holds spaces", "tab\tkey"],
    [["--allowed-origins", "app.example.org"], '"app.example.org" is no origin'],
    [["--allowed-origins", "[1]"], "--allowed-origins: is no list of texts"],
    [["--allowed-hosts", "http://a"], '"http://a" is no host'],
  ];
  await Promise.all(
    refusals.map(async ([args, says, key]) => {
      const environment = key === undefined ? {} : { MOONCAKE_KV_API_KEY: key };
      const child = startCli(["serve", "--model", "/nowhere.gguf", ...args], environment);
      expect(await child.exit).toEqual({ code: 1, signal: null });
      expect(child.errors()).toContain(says);
      expect(child.errors()).not.toMatch(/\n\s+at |two words|tab\tkey/);
    }),
  );
});
