/**
 * What the pool costs traffic that reuses nothing: tokens per second of completed requests with the pool on (every prompt is
 * hashed, looked up and saved) over the pool off.
 *
 * Both applications are alive at the same time and driven in turns, in changing order. Restarting them for every run would
 * compare start-ups: cold code, fresh memory, a model read anew. The one that is not driven sleeps, and its saves are waited
 * for between the runs, so it takes nothing from the other; the ratio is the median over neighbouring runs, which the load of
 * the machine meets alike.
 */
import { median, Report } from "./lib/report.ts";
import { ask, modelOf, Prompts, saved, startServing } from "./lib/serving.ts";
import type { Application } from "../src/serving/application.ts";

// Long enough that start and tail of a run, when not all clients are busy, weigh little.
const REQUESTS = 64;
const CONCURRENT = 8;
const PROMPT_TOKENS = 512;
const ANSWER_TOKENS = 32;
const TOKENS = REQUESTS * (PROMPT_TOKENS + ANSWER_TOKENS);
const PAIRS = 11;
const WARM_UP_PAIRS = 2;

const model = await modelOf("tiny", 1024);
const report = new Report("zero-reuse");
const prompts = new Prompts();
// Full after the warm-up, as a pool is that has been in use for a while: every put evicts, none asks the system for memory.
const poolBytesMax = 32 * 1024 * 1024;
const on = await startServing(model, { pool: true, modelThreads: 1, poolBytesMax });
const off = await startServing(model, { pool: false, modelThreads: 1, poolBytesMax });
try {
  await measure();
} finally {
  await Promise.all([on.stop(), off.stop()]);
}
report.close();

async function measure(): Promise<void> {
  const rates: Record<"on" | "off", number[]> = { on: [], off: [] };
  const processor: Record<"on" | "off", number[]> = { on: [], off: [] };
  for (let pair = 0; pair < WARM_UP_PAIRS + PAIRS; pair++) {
    const order = pair % 2 === 0 ? (["on", "off"] as const) : (["off", "on"] as const);
    for (const which of order) {
      const before = process.cpuUsage();
      const rate = await run(which === "on" ? on : off);
      const { user, system } = process.cpuUsage(before);
      if (which === "on") await saved(on);
      if (pair < WARM_UP_PAIRS) continue;
      rates[which].push(rate);
      processor[which].push((user + system) / TOKENS);
    }
  }
  checkPool();
  report.figure("pool on", median(rates.on), "tokens/s");
  report.figure("pool off", median(rates.off), "tokens/s");
  report.figure("pool on, CPU time of all threads", median(processor.on), "us/token");
  report.figure("pool off, CPU time of all threads", median(processor.off), "us/token");
  const ratios = rates.on.map((rate, pair) => rate / rates.off[pair]!);
  report.figure("lowest pair", Math.min(...ratios), "on/off");
  report.figure("highest pair", Math.max(...ratios), "on/off");
  report.ratio("zero-reuse-on-over-off", median(ratios), "least", 0.97);
}

/** Requests with prompts that nobody has seen, eight at a time; prompt and answer tokens per second. */
async function run(application: Application): Promise<number> {
  const { native } = application.runtime;
  const waiting = Array.from({ length: REQUESTS }, () =>
    prompts.next(PROMPT_TOKENS, Math.min(256, model.config.vocabularySize)),
  );
  globalThis.gc?.();
  const start = native.monotonicNanoseconds();
  const client = async (): Promise<void> => {
    for (let prompt = waiting.pop(); prompt !== undefined; prompt = waiting.pop()) {
      const { summary } = await ask(application, "unique", prompt, ANSWER_TOKENS);
      if (summary.localTokens + summary.poolTokens > 0)
        throw new Error(
          `a unique prompt reused ${summary.localTokens + summary.poolTokens} tokens`,
        );
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT }, client));
  const seconds = (native.monotonicNanoseconds() - start) / 1e9;
  return TOKENS / seconds;
}

/** The pool really was on and off: one was given every block of all prompts and was full, the other got none. */
function checkPool(): void {
  const { puts, evictions } = on.runtime.native.engineStatistics(on.runtime.engineId);
  if (evictions === 0) throw new Error("the pool was never full");
  const blocks = (WARM_UP_PAIRS + PAIRS) * REQUESTS * Math.floor(PROMPT_TOKENS / model.blockSize);
  if (puts !== blocks) throw new Error(`${puts} blocks were put into the pool, wanted ${blocks}`);
  const other = off.runtime.native.engineStatistics(off.runtime.engineId);
  if (other.puts !== 0) throw new Error(`${other.puts} blocks were put with the pool off`);
}
