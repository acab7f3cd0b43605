import { setTimeout as sleep } from "node:timers/promises";
import { MooncakeKvError } from "../errors.ts";
import type { Application } from "../serving/application.ts";

/** One answered request of the demonstration. */
export interface DemoRow {
  readonly what: string;
  readonly promptTokens: number;
  readonly tokensComputed: number;
  readonly tokensFromLocal: number;
  readonly tokensFromPool: number;
  readonly timeToFirstTokenMs: number;
  readonly logitsHash: string;
  readonly answer: string;
}

export interface DemoResult {
  readonly model: string;
  readonly rows: readonly DemoRow[];
  /** Hashes of the first token's logits are equal in every pair of cold and pool, and pool tokens were really used. */
  readonly bitEqual: boolean;
  readonly ttftColdMs: number;
  readonly ttftPoolMs: number;
  readonly poolTokens: number;
}

const SAVE_WAIT_MS = 60_000;
const PAIRS = 3;
const ANSWER_TOKENS = 16;

/**
 * The demonstration: a conversation with a long shared prefix, cold and again from the pool.
 *
 * Every pair has its own `cache_salt`, so its first request is truly cold; then the local cache is dropped, and the same
 * request and the conversation's next turn find their prefix in the pool only.
 */
export async function runDemo(
  application: Application,
  show: (text: string) => void,
): Promise<DemoResult> {
  const rows: DemoRow[] = [];
  await ask(application, "warm-up", [{ role: "user", content: "Hello" }], "warm-up");
  const colds: DemoRow[] = [];
  const pools: DemoRow[] = [];
  for (let pair = 1; pair <= PAIRS; pair++) {
    const salt = `demo ${pair}`;
    show(`pair ${pair} of ${PAIRS}: computing the prompt`);
    const cold = await ask(application, `cold ${pair}`, firstTurn(), salt);
    await saved(application);
    await post(application, "/debug/drop_local_cache", {});
    show(`pair ${pair} of ${PAIRS}: reusing it from the pool`);
    const pool = await ask(application, `from the pool ${pair}`, firstTurn(), salt);
    colds.push(cold);
    pools.push(pool);
    rows.push(cold, pool);
  }
  await post(application, "/debug/drop_local_cache", {});
  const first = colds.at(-1)?.answer ?? "";
  rows.push(await ask(application, "next turn, from the pool", nextTurn(first), `demo ${PAIRS}`));
  const bitEqual = pools.every(
    (pool, pair) => pool.logitsHash === colds[pair]?.logitsHash && pool.tokensFromPool > 0,
  );
  return {
    model: application.modelName,
    rows,
    bitEqual,
    ttftColdMs: middle(colds),
    ttftPoolMs: middle(pools),
    poolTokens: pools.at(-1)?.tokensFromPool ?? 0,
  };
}

type Message = { readonly role: "system" | "user" | "assistant"; readonly content: string };

function firstTurn(): Message[] {
  const rules = Array.from(
    { length: 24 },
    (_, index) =>
      `Rule ${index + 1}: answer briefly, name your sources, and never invent a number that was not given to you.`,
  );
  return [
    {
      role: "system",
      content: `You are a careful assistant of a small library. ${rules.join(" ")}`,
    },
    { role: "user", content: "What is the capital of France?" },
  ];
}

function nextTurn(answer: string): Message[] {
  return [
    ...firstTurn(),
    { role: "assistant", content: answer },
    { role: "user", content: "And of Italy?" },
  ];
}

async function ask(
  application: Application,
  what: string,
  messages: Message[],
  salt: string,
): Promise<DemoRow> {
  const body = {
    model: application.modelName,
    messages,
    max_tokens: ANSWER_TOKENS,
    temperature: 0,
    cache_salt: salt,
    x_mooncake_kv: true,
  };
  const answer = (await post(application, "/v1/chat/completions", body)) as ChatAnswer;
  const { x_mooncake_kv: extension, usage } = answer;
  return {
    what,
    promptTokens: usage.prompt_tokens,
    tokensComputed: usage.prompt_tokens - extension.local_tokens - extension.pool_tokens,
    tokensFromLocal: extension.local_tokens,
    tokensFromPool: extension.pool_tokens,
    timeToFirstTokenMs: extension.ttft_ms ?? Number.NaN,
    logitsHash: extension.logits_hash ?? "",
    answer: answer.choices[0]?.message.content ?? "",
  };
}

interface ChatAnswer {
  readonly choices: readonly { readonly message: { readonly content: string } }[];
  readonly usage: { readonly prompt_tokens: number };
  readonly x_mooncake_kv: {
    readonly logits_hash: string | null;
    readonly ttft_ms: number | null;
    readonly local_tokens: number;
    readonly pool_tokens: number;
  };
}

async function post(application: Application, path: string, body: object): Promise<unknown> {
  const response = await fetch(`${application.server?.url ?? ""}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(SAVE_WAIT_MS),
  });
  const answer: unknown = await response.json();
  if (response.ok) return answer;
  throw new MooncakeKvError({
    code: "BROKEN_INVARIANT",
    field: path,
    value: answer,
    problem: `the server answered ${response.status}`,
    remedy: "Run it again with --log-level debug and look at what the actors say.",
  });
}

/** Waits until the pool has stopped growing: every block of the finished request is saved. */
async function saved(application: Application): Promise<void> {
  const { native, engineId } = application.runtime;
  let keys = -1;
  for (let waitedMs = 0; waitedMs < SAVE_WAIT_MS; waitedMs += 50) {
    const statistics = native.engineStatistics(engineId);
    if (statistics.keys === keys && keys > 0 && statistics.batchesInFlight === 0) return;
    keys = statistics.keys;
    await sleep(50);
  }
}

function middle(rows: readonly DemoRow[]): number {
  const times = rows.map((row) => row.timeToFirstTokenMs).toSorted((left, right) => left - right);
  return times[times.length >> 1] ?? Number.NaN;
}
