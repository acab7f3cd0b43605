/**
 * Time to first token of a prompt of 850 tokens, cold and from the pool, in pairs: each pair has a cache salt of its own, so
 * that its first request is truly cold; then its blocks are saved, the local cache is dropped, and the same request finds them
 * in the pool only. Both must give the same bits. `--model tiny` or `--model smollm2`; both without it.
 * `--trace FILE` writes a Chrome trace of the run (of the last model).
 */
import { median, Report } from "./lib/report.ts";
import { ask, type Answer, modelOf, Prompts, saved, startServing } from "./lib/serving.ts";
import type { Application } from "../src/serving/application.ts";
import type { PreparedModel } from "../src/serving/model/prepared-model.ts";

const PROMPT_TOKENS = 850;
const ANSWER_TOKENS = 4;
const PAIRS = 5;
const WARM_UP_PAIRS = 2;
const MODELS = [
  { name: "tiny", threads: 1, bound: 1 / 8 },
  { name: "smollm2", threads: 2, bound: 1 / 15 },
] as const;

const wanted = optionOf("--model");
if (wanted !== undefined && !MODELS.some(({ name }) => name === wanted))
  throw new Error(`--model ${wanted}: give one of ${MODELS.map(({ name }) => name).join(", ")}`);
const report = new Report("ttft");
for (const one of MODELS) {
  if (wanted !== undefined && one.name !== wanted) continue;
  const model = await prepared(one.name, wanted !== undefined);
  if (model === null) continue;
  const application = await startServing(model, {
    pool: true,
    modelThreads: one.threads,
    traceFile: optionOf("--trace"),
  });
  try {
    await measure(application, model, one.name, one.bound);
  } finally {
    await application.stop();
  }
}
report.close();

function optionOf(name: string): string | undefined {
  const at = process.argv.indexOf(name);
  return at < 0 ? undefined : process.argv[at + 1];
}

/** null: it cannot be had here (no network) and was not asked for by name. */
async function prepared(name: string, required: boolean): Promise<PreparedModel | null> {
  try {
    return await modelOf(name, 1024);
  } catch (error) {
    if (required || name === "tiny") throw error;
    console.log(`${name} is left out: ${error instanceof Error ? error.message : String(error)}`);
    return null;
  }
}

async function measure(
  application: Application,
  model: PreparedModel,
  name: string,
  bound: number,
): Promise<void> {
  const prompt = new Prompts().next(PROMPT_TOKENS, Math.min(256, model.config.vocabularySize));
  const colds: number[] = [];
  const pools: number[] = [];
  for (let pair = 0; pair < WARM_UP_PAIRS + PAIRS; pair++) {
    const salt = `${name} ${pair}`;
    const cold = await ask(application, `cold ${pair}`, prompt, ANSWER_TOKENS, salt);
    await saved(application);
    await application.frontEnd.dropLocalCache();
    const pool = await ask(application, `pool ${pair}`, prompt, ANSWER_TOKENS, salt);
    check(cold, pool, model.blockSize);
    if (pair < WARM_UP_PAIRS) continue;
    colds.push(cold.summary.timeToFirstTokenMs);
    pools.push(pool.summary.timeToFirstTokenMs);
  }
  report.figure(`${name}, ${PROMPT_TOKENS} tokens, cold`, median(colds), "ms");
  report.figure(`${name}, ${PROMPT_TOKENS} tokens, from the pool`, median(pools), "ms");
  report.figure(`${name}, slowest from the pool`, Math.max(...pools), "ms");
  report.ratio(`ttft-${name}-pool-over-cold`, median(pools) / median(colds), "most", bound);
}

/** A pair that was not what it should be ends the run: its times would mean nothing. */
function check(cold: Answer, pool: Answer, blockSize: number): void {
  const reusable = Math.floor((PROMPT_TOKENS - 1) / blockSize) * blockSize;
  const { summary } = pool;
  if (cold.summary.poolTokens !== 0 || cold.summary.localTokens !== 0)
    throw new Error(
      `the cold request reused ${cold.summary.poolTokens + cold.summary.localTokens} tokens`,
    );
  if (summary.poolTokens !== reusable || summary.localTokens !== 0) {
    throw new Error(
      `${summary.poolTokens} tokens came from the pool and ${summary.localTokens} from local blocks, wanted ${reusable} and 0`,
    );
  }
  if (cold.logitsHashes.includes("")) throw new Error("a token has no hash of its logits");
  if (cold.logitsHashes.join(" ") !== pool.logitsHashes.join(" "))
    throw new Error(
      `logits differ: ${cold.logitsHashes.join(" ")} and ${pool.logitsHashes.join(" ")}`,
    );
}
