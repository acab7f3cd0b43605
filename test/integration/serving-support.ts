import OpenAI from "openai";
import { readEnvironment } from "../../src/config/environment.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";
import { loadNative } from "../../src/native/load.ts";
import { Application, type ApplicationOptions } from "../../src/serving/application.ts";
import { prepareModel } from "../../src/serving/model/prepare-model.ts";

export interface MooncakeKvField {
  readonly logits_hash: string;
  readonly ttft_ms: number;
  readonly local_tokens: number;
  readonly pool_tokens: number;
  readonly lookup_outcome: string;
  readonly tokens_computed: number;
  readonly preemptions: number;
}

let pools = 0;

/** A whole serving process of the generated model: actor threads, addon, local engine with a pool of its own, HTTP. */
export async function startTiny(options: Partial<ApplicationOptions> = {}): Promise<Application> {
  const { config: connector } = parseTransferConfig(undefined, readEnvironment({}));
  const poolName = `serving-test-${process.pid}-${pools++}`;
  return Application.start({
    native: loadNative(),
    model: await prepareModel("tiny", { cacheFolder: "unused", contextTokensMax: 1024 }),
    connector: { ...connector, local: { ...connector.local, poolName } },
    hashSeed: null,
    blockCount: 512,
    requestSlots: 32,
    sequencesMax: 8,
    tokensPerStepMax: 256,
    modelThreads: 1,
    pool: true,
    logLevel: "silent",
    log: {
      debug: () => undefined,
      info: () => undefined,
      warn: () => undefined,
      error: () => undefined,
    },
    http: { host: "127.0.0.1", port: 0, debugRoutes: true },
    traceFile: null,
    random: () => 0.25,
    wallClockMs: () => 1_700_000_000_000,
    ...options,
  });
}

/** The official client on a served application. */
export function clientOf(application: Application): OpenAI {
  const url = application.server?.url ?? "";
  return new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
}

export interface Asked {
  readonly text: string;
  readonly cached: number;
  readonly field: MooncakeKvField;
}

/** A greedy completion with the extension field. */
export async function ask(client: OpenAI, prompt: string, more: object = {}): Promise<Asked> {
  const asked = { model: "tiny", prompt, temperature: 0, max_tokens: 12, x_mooncake_kv: true };
  const answer = await client.completions.create({ ...asked, ...more });
  const field = (answer as unknown as { x_mooncake_kv: MooncakeKvField }).x_mooncake_kv;
  return {
    text: answer.choices[0]?.text ?? "",
    cached: answer.usage?.prompt_tokens_details?.cached_tokens ?? -1,
    field,
  };
}

export async function dropLocalCache(application: Application): Promise<number> {
  const url = `${application.server?.url ?? ""}/debug/drop_local_cache`;
  const response = await fetch(url, { method: "POST" });
  return ((await response.json()) as { blocks: number }).blocks;
}

/** Value of one series of the scrape, labels of the model left out. */
export async function scraped(application: Application, name: string): Promise<number> {
  const text = await (await fetch(`${application.server?.url ?? ""}/metrics`)).text();
  const line = text.split("\n").find((one) => one.startsWith(`${name}{`));
  return Number(line?.split(" ").at(-1));
}
