import OpenAI from "openai";
import { onTestFinished } from "vitest";
import { ByteTokenizer } from "../../src/serving/model/byte-tokenizer.ts";
import { OpenAiServer, type OpenAiServerOptions } from "../../src/serving/server.ts";
import { PromptEncoder } from "../../src/serving/tokenizing/prompt-encoder.ts";
import { Metrics } from "../../src/trace/metrics.ts";
import { silentLog, World, type WorldOptions } from "./serving-support.ts";

export const tokenizer = new ByteTokenizer(512);
export const bytesOf = (text: string): number[] => [...new TextEncoder().encode(text)];

export async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const all: Item[] = [];
  for await (const item of items) all.push(item);
  return all;
}

export interface ServedWorld {
  readonly world: World;
  readonly server: OpenAiServer;
  readonly client: OpenAI;
  readonly post: (
    path: string,
    body: unknown,
    headers?: Record<string, string>,
  ) => Promise<Response>;
  readonly get: (path: string) => Promise<Response>;
}

/** The HTTP server on a free port over a front end with a scheduler double that answers every prompt with `text`. */
export async function serve(
  text: string,
  options: WorldOptions & { readonly server?: Partial<OpenAiServerOptions> } = {},
): Promise<ServedWorld> {
  const world = new World(options);
  world.scheduler.answerTo = () => bytesOf(text);
  world.scheduler.endTokenIds = tokenizer.endTokenIds;
  const metrics = new Metrics();
  metrics.addSource({ modelName: "tiny", engine: "0", counters: world.counterBuffer });
  const server = await OpenAiServer.start({
    frontEnd: world.frontEnd,
    model: {
      modelName: "tiny",
      tokenizer,
      prompts: new PromptEncoder(tokenizer),
      contextTokensMax: 200,
    },
    healthy: () => true,
    engineState: () => "open",
    resetCache: null,
    membership: () => ({ membership: "open", differences: [], keyDifferences: [] }),
    dumpState: async () => ({}),
    metrics: { contentType: metrics.contentType, text: () => metrics.text() },
    random: () => 0.5,
    wallClockMs: () => 1_700_000_000_500,
    debugRoutes: false,
    port: 0,
    log: silentLog,
    ...options.server,
  });
  onTestFinished(async () => {
    await server.close(0);
    world.frontEnd.close();
  });
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
  return {
    world,
    server,
    client,
    post: (path, body, headers = {}) =>
      fetch(server.url + path, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body),
      }),
    get: (path) => fetch(server.url + path),
  };
}
