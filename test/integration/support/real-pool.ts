import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { IDENTITY_KEY_ENDING } from "../../../src/connector/identity/identity.ts";
import type { RunningMaster } from "../../../src/pool/master.ts";
import type { StoreJson } from "../../../src/pool/pool.ts";
import { type Child, startServe } from "./child.ts";

/** Writes a store's JSON into `folder`; returns what MOONCAKE_CONFIG_PATH takes. */
export function writeStore(folder: string, store: StoreJson, name = "store"): string {
  const path = join(folder, `${name}.json`);
  writeFileSync(path, JSON.stringify(store));
  return path;
}

/** vLLM's KV-transfer configuration of a member, whose lookups and loads are given the time that busy machines need. */
export function transferConfig(extra: Readonly<Record<string, unknown>> = {}): object {
  return {
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_both",
    kv_connector_extra_config: { lookup_async: true, lookup_timeout_ms: 30_000, ...extra },
  };
}

export interface PoolServer {
  readonly child: Child;
  readonly url: string;
}

/** `mooncake-kv serve` of the generated model as member of the pool that the store's JSON names. */
export function startPoolServer(
  storePath: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<PoolServer> {
  return startServe(
    [
      "--context-tokens-max=512",
      "--kv-memory=16mb",
      "--request-slots=32",
      "--debug-routes",
      `--kv-transfer-config=${JSON.stringify(transferConfig())}`,
    ],
    { MOONCAKE_CONFIG_PATH: storePath, ...environment },
  );
}

/** Ends a server as a person does; returns how it ended. */
export async function stopPoolServer({ child }: PoolServer): Promise<unknown> {
  child.process.kill("SIGTERM");
  return await child.exit;
}

export interface PoolAnswer {
  readonly text: string;
  /** Of usage: tokens that need not be computed. */
  readonly cached: number;
  readonly poolTokens: number;
  readonly computed: number;
  readonly outcome: string;
  /** Hash of the raw logits of the first token. */
  readonly logitsHash: string;
  /** Log-probabilities of the tokens and of those next to them, for all tokens of the answer: floats, bit for bit. */
  readonly logprobs: unknown;
}

interface Completion {
  readonly choices: readonly { readonly text: string; readonly logprobs: unknown }[];
  readonly usage: { readonly prompt_tokens_details: { readonly cached_tokens: number } };
  readonly x_mooncake_kv: {
    readonly logits_hash: string;
    readonly pool_tokens: number;
    readonly tokens_computed: number;
    readonly lookup_outcome: string;
  };
}

/** A greedy completion of 12 tokens. */
export async function askServer(url: string, prompt: string): Promise<PoolAnswer> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "tiny",
      prompt,
      temperature: 0,
      max_tokens: 12,
      logprobs: 5,
      x_mooncake_kv: true,
    }),
  });
  if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
  const { choices, usage, x_mooncake_kv: field } = (await response.json()) as Completion;
  return {
    text: choices[0]?.text ?? "",
    cached: usage.prompt_tokens_details.cached_tokens,
    poolTokens: field.pool_tokens,
    computed: field.tokens_computed,
    outcome: field.lookup_outcome,
    logitsHash: field.logits_hash,
    logprobs: choices[0]?.logprobs,
  };
}

/** Sum of a metric's series whose labels hold `labels`. */
export async function scrapedSum(url: string, name: string, labels = ""): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return text
    .split("\n")
    .filter((line) => line.startsWith(`${name}{`) && line.includes(labels))
    .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

/** Keys of blocks in the pool: without what members publish about themselves, and without checksums. */
export async function blockKeys({ admin }: RunningMaster): Promise<string[]> {
  const keys = await admin.keys();
  return keys.filter((key) => !key.endsWith(IDENTITY_KEY_ENDING) && !key.includes("#xxh3"));
}

/** Waits until the pool holds `count` blocks; returns their keys. */
export async function untilBlocks(master: RunningMaster, count: number): Promise<string[]> {
  for (let tries = 0; ; tries++) {
    const keys = await blockKeys(master);
    if (keys.length >= count) return keys;
    if (tries === 400) throw new Error(`the pool holds ${keys.length} blocks, not ${count}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

interface Described {
  readonly segments: readonly { readonly segment_name: string; readonly te_endpoint: string }[];
}
interface KeyAnswer {
  readonly data?: readonly { readonly transport_endpoint_: string }[];
}

/** Names of the segments that hold replicas of these keys, as the master describes the replicas. */
export async function segmentsOf(
  { metricsPort }: RunningMaster,
  keys: readonly string[],
): Promise<string[]> {
  const ask = async (path: string): Promise<unknown> =>
    (await fetch(`http://127.0.0.1:${metricsPort}${path}`)).json();
  const { segments } = (await ask("/get_segments_detail")) as Described;
  const names = new Map(segments.map((each) => [each.te_endpoint, each.segment_name]));
  const found = new Set<string>();
  for (const key of keys) {
    // The master takes the key as it is written: it decodes nothing.
    const { data = [] } = (await ask(`/query_key?key=${key}`)) as KeyAnswer;
    if (data.length === 0) throw new Error(`the master describes no replica of ${key}`);
    for (const { transport_endpoint_: endpoint } of data)
      found.add(names.get(endpoint) ?? `unknown ${endpoint}`);
  }
  return [...found];
}
