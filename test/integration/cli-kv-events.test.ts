/**
 * Goal: what is wrong with `--kv-events-config` is said before a model is looked for, with field, value and remedy, and the process
 * ends by itself; what is right is published by the compiled program.
 * Method: the command line as a child process on free ports of 127.0.0.1.
 */
import { Router } from "zeromq";
import { expect, onTestFinished, test } from "vitest";
import { KvEventSubscriber } from "../../src/events/subscriber.ts";
import { startCli, startServe } from "./support/child.ts";

const LOCAL = { VLLM_HOST_IP: "127.0.0.1" };

async function refused(settings: string, ...says: string[]): Promise<void> {
  const args = ["serve", "--port", "0", "--model", "no-such-model.gguf"];
  const child = startCli([...args, "--kv-events-config", settings], LOCAL);
  expect(await child.exit, settings).toEqual({ code: 1, signal: null });
  for (const part of says) expect(child.errors()).toContain(part);
  expect(child.errors()).not.toMatch(/\n\s+at /);
}

test("settings that are wrong, and an address that is taken", async () => {
  const taken = new Router();
  onTestFinished(() => taken.close());
  await taken.bind("tcp://127.0.0.1:*");
  const inUse = {
    enable_kv_cache_events: true,
    endpoint: "tcp://*:0",
    replay_endpoint: taken.lastEndpoint,
  };
  await Promise.all([
    refused("{", "kv_events_config", "JSON"),
    refused('{"hwm":"much"}', "kv_events_config.hwm", '"much"', "default 100000"),
    refused('{"enable_kv_cache_event":true}', 'Did you mean "enable_kv_cache_events"?'),
    refused(JSON.stringify(inUse), "kv_events_config.replay_endpoint", "in use", "another address"),
    // The publisher is open when the model turns out to be missing.
    refused('{"enable_kv_cache_events":true,"endpoint":"tcp://*:0"}', "no-such-model.gguf"),
  ]);
});

test("a server says where it publishes, and does", async () => {
  const settings = {
    enable_kv_cache_events: true,
    endpoint: "tcp://*:0",
    replay_endpoint: "tcp://*:0",
  };
  const { child, url } = await startServe(
    ["--log-level", "info", "--kv-events-config", JSON.stringify(settings)],
    LOCAL,
  );
  onTestFinished(async () => {
    child.process.kill("SIGTERM");
    await child.exit;
  });
  const told = child
    .errors()
    .split("\n")
    .find((line) => line.includes("KV events are published"));
  const { endpoint, replayEndpoint } = JSON.parse(told ?? "{}") as Record<string, string>;
  const subscriber = await KvEventSubscriber.open({
    endpoint: endpoint ?? "",
    replayEndpoint: replayEndpoint ?? "",
    firstSequence: 0,
  });
  onTestFinished(() => subscriber.close());
  const ask = async (prompt: string): Promise<unknown> => {
    const body = JSON.stringify({ model: "tiny", prompt, max_tokens: 1 });
    const headers = { "content-type": "application/json" };
    return await (await fetch(`${url}/v1/completions`, { method: "POST", headers, body })).json();
  };
  let asked = 0;
  const timer = setInterval(() => void ask(`${asked++}`.padEnd(100, "x")).catch(() => {}), 50);
  const media = new Set<string | null>();
  for await (const message of subscriber) {
    if (message.kind !== "batch") throw new Error(`a ${message.kind} message`);
    for (const event of message.batch.events)
      if (event.type === "BlockStored") media.add(event.medium);
    if (media.size === 2) break;
  }
  clearInterval(timer);
  expect(media).toEqual(new Set(["GPU", "cpu"]));
});
