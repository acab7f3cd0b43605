import { Command, CommanderError } from "commander";
import { join } from "node:path";
import { destination, pino } from "pino";
import { readEnvironment } from "../config/environment.ts";
import type { HashAlgorithmName } from "../config/kv-cache-config.ts";
import { parseTransferConfig } from "../config/transfer-config.ts";
import { loadNative } from "../native/load.ts";
import { Application } from "../serving/application.ts";
import { prepareModel } from "../serving/model/prepare-model.ts";
import { checkTraceFile } from "../serving/serving-trace.ts";
import { packageRoot } from "../worker-entry.ts";
import { defaultBlockCount } from "./block-count.ts";
import { type DemoResult, runDemo } from "./demo-run.ts";
import { errorText } from "./error-text.ts";
import { hashAlgorithmOption } from "./options.ts";
import { ProgressLine } from "./progress-line.ts";

const KV_BYTES = 256 * 1024 * 1024;
/** Long enough for the demonstration's prompts, short enough to start quickly. */
const CONTEXT_TOKENS_MAX = 4096;

async function main(): Promise<void> {
  const program = new Command("npm run demo --")
    .description(
      "the main job in a minute: compute a prefix once, drop the local cache, take it back from the pool",
    )
    .option("--model <name>", "tiny, smollm2, or the path of a Llama-family GGUF file", "tiny")
    .option("--json", "print one JSON object")
    .option("--trace <file>", "write a Chrome trace of the run")
    .addOption(hashAlgorithmOption())
    .exitOverride();
  program.parse(process.argv);
  const flags = program.opts<{
    model: string;
    json?: boolean;
    trace?: string;
    prefixCachingHashAlgo: HashAlgorithmName;
  }>();
  if (flags.trace !== undefined) checkTraceFile(flags.trace);
  const progress = new ProgressLine(process.stderr);
  const environment = readEnvironment({});
  const log = pino({ name: "mooncake-kv", level: "warn" }, destination({ fd: 2, sync: true }));
  const { config: connector } = parseTransferConfig(
    {
      kv_connector: "MooncakeStoreConnector",
      kv_role: "kv_both",
      kv_connector_extra_config: { engine: "local", lookup_async: true, pool_name: "demo" },
    },
    environment,
  );
  const model = await prepareModel(flags.model, {
    cacheFolder: join(packageRoot(), ".cache", "models"),
    contextTokensMax: CONTEXT_TOKENS_MAX,
    onProgress: ({ text, fraction }) => progress.show(text, fraction),
  });
  progress.show(`starting ${model.modelName}`);
  const application = await Application.start({
    native: loadNative(),
    model,
    connector,
    hashSeed: environment.hashSeed,
    blockCount: defaultBlockCount(model, KV_BYTES),
    requestSlots: 64,
    sequencesMax: 8,
    tokensPerStepMax: 512,
    modelThreads: flags.model === "tiny" ? 1 : 2,
    hashAlgorithm: flags.prefixCachingHashAlgo,
    pool: true,
    logLevel: "warn",
    log,
    http: { host: "127.0.0.1", port: 0, debugRoutes: true },
    traceFile: flags.trace ?? null,
    random: Math.random,
    wallClockMs: Date.now,
  });
  let result: DemoResult;
  try {
    result = await runDemo(application, (text) => progress.show(text));
  } finally {
    progress.clear();
    await application.stop();
  }
  process.stdout.write(flags.json === true ? `${JSON.stringify(result)}\n` : table(result));
  if (!result.bitEqual) process.exitCode = 1;
}

function table(result: DemoResult): string {
  const head = ["request", "prompt", "computed", "local", "pool", "first token ms", "logits hash"];
  const body = result.rows.map((row) => [
    row.what,
    String(row.promptTokens),
    String(row.tokensComputed),
    String(row.tokensFromLocal),
    String(row.tokensFromPool),
    row.timeToFirstTokenMs.toFixed(1),
    row.logitsHash,
  ]);
  const widths = head.map((title, column) =>
    Math.max(title.length, ...body.map((cells) => cells[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join("  ");
  const ratio = (result.ttftColdMs / result.ttftPoolMs).toFixed(1);
  return [
    `model ${result.model}`,
    line(head),
    ...body.map(line),
    `logits bit-equal: ${result.bitEqual ? "yes" : "NO"}; first token from the pool ${ratio} times sooner than cold`,
    "",
  ].join("\n");
}

main().catch((error: unknown) => {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else {
    process.stderr.write(`demo: ${errorText(error)}\n`);
    process.exitCode = 1;
  }
});
