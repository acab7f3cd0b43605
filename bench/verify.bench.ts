/**
 * What `pool_verify` costs a server over a real pool (TCP on loopback): time to first token with a hit, and tokens per second of
 * traffic that reuses nothing, each with `when_present` over `off`. Both servers live at the same time and take turns, in changing
 * order, so that the load of the machine meets neighbouring runs alike; ratios are medians over such pairs.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startBenchPool } from "./lib/bench-pool.ts";
import { inTurns } from "./lib/pairs.ts";
import { median, Report } from "./lib/report.ts";
import { ask, modelOf, Prompts, saved, startServing } from "./lib/serving.ts";
import type { Application } from "../src/serving/application.ts";

const MODES = ["off", "when_present"] as const;
type Mode = (typeof MODES)[number];
const HIT_TOKENS = 850;
const HIT_PAIRS = 15;
const REQUESTS = 32;
const CONCURRENT = 8;
const PROMPT_TOKENS = 512;
const ANSWER_TOKENS = 32;
const TOKENS = REQUESTS * (PROMPT_TOKENS + ANSWER_TOKENS);
const PAIRS = 11;
const WARM_UP_PAIRS = 2;

const report = new Report("verify");
const prompts = new Prompts();
const model = await modelOf("tiny", 1024);
const vocabulary = Math.min(256, model.config.vocabularySize);
const folder = mkdtempSync(join(tmpdir(), "mooncake-kv-bench-"));
const { pool } = await startBenchPool();
const path = join(folder, "store.json");
writeFileSync(path, JSON.stringify(pool.store));
const servers = {} as Record<Mode, Application>;
try {
  for (const mode of MODES)
    servers[mode] = await startServing(model, {
      pool: true,
      modelThreads: 1,
      store: { path, settings: { pool_verify: mode, lookup_timeout_ms: 30_000 } },
    });
  await firstTokens();
  await withoutReuse();
} finally {
  for (const server of Object.values(servers)) await server.stop();
  await pool.stop();
  rmSync(folder, { recursive: true });
}
report.close();
process.exit(0);

async function firstTokens(): Promise<void> {
  const times: Record<Mode, number[]> = { off: [], when_present: [] };
  const prompt = prompts.next(HIT_TOKENS, vocabulary);
  for (const mode of MODES) {
    await ask(servers[mode], `cold ${mode}`, prompt, 2, mode);
    await saved(servers[mode]);
  }
  const hit = async (mode: Mode): Promise<void> => {
    const server = servers[mode];
    await server.frontEnd.dropLocalCache();
    const { summary } = await ask(server, `hit ${mode}`, prompt, 2, mode);
    if (summary.poolTokens < HIT_TOKENS - model.blockSize)
      throw new Error(`${summary.poolTokens} tokens came from the pool`);
    times[mode].push(summary.timeToFirstTokenMs);
  };
  for (let pair = 0; pair < WARM_UP_PAIRS + HIT_PAIRS; pair++)
    await inTurns(
      pair,
      MODES.map((mode) => () => hit(mode)),
    );
  for (const mode of MODES) {
    times[mode].splice(0, WARM_UP_PAIRS);
    report.figure(`time to first token with a hit, ${mode}`, median(times[mode]), "ms");
  }
  report.ratio("verify-ttft-hit", median(ratios(times)), "most", 1.05);
}

async function withoutReuse(): Promise<void> {
  const rates: Record<Mode, number[]> = { off: [], when_present: [] };
  for (let pair = 0; pair < WARM_UP_PAIRS + PAIRS; pair++)
    await inTurns(
      pair,
      MODES.map((mode) => async (): Promise<void> => {
        const rate = await run(servers[mode]);
        await saved(servers[mode]);
        if (pair >= WARM_UP_PAIRS) rates[mode].push(rate);
      }),
    );
  for (const mode of MODES)
    report.figure(`without reuse, ${mode}`, median(rates[mode]), "tokens/s");
  report.ratio("verify-zero-reuse", median(ratios(rates)), "least", 0.99);
}

/** Of `when_present` over `off`, pair by pair. */
function ratios(figures: Readonly<Record<Mode, number[]>>): number[] {
  return figures.when_present.map((figure, pair) => figure / figures.off[pair]!);
}

/** Prompts that nobody has seen, eight at a time; prompt and answer tokens per second. */
async function run(server: Application): Promise<number> {
  const { native } = server.runtime;
  const waiting = Array.from({ length: REQUESTS }, () => prompts.next(PROMPT_TOKENS, vocabulary));
  globalThis.gc?.();
  const start = native.monotonicNanoseconds();
  const client = async (): Promise<void> => {
    for (let prompt = waiting.pop(); prompt !== undefined; prompt = waiting.pop())
      await ask(server, "unique", prompt, ANSWER_TOKENS);
  };
  await Promise.all(Array.from({ length: CONCURRENT }, client));
  return TOKENS / ((native.monotonicNanoseconds() - start) / 1e9);
}
