import { type Command, Option } from "commander";
import { destination, pino } from "pino";
import { prepareRecordFolder } from "../actors/hosts/recording/record-folder.ts";
import { readEnvironment } from "../config/environment.ts";
import type { HashAlgorithmName } from "../config/kv-cache-config.ts";
import { parseTransferConfig } from "../config/transfer-config.ts";
import { formatWarning } from "../config/warnings.ts";
import type { KvEventPublisher } from "../events/publisher.ts";
import { openPublisher, readKvEventSettings } from "../events/settings.ts";
import { loadNative } from "../native/load.ts";
import { Application } from "../serving/application.ts";
import { checkListenable } from "../serving/listening.ts";
import { prepareModel } from "../serving/model/prepare-model.ts";
import { checkTraceFile } from "../serving/serving-trace.ts";
import { defaultBlockCount, givenBlockCount } from "./block-count.ts";
import { defaultCacheFolder, hashAlgorithmOption, sizeBytes, wholeNumber } from "./options.ts";
import { ProgressLine } from "./progress-line.ts";

const KV_BYTES = 512 * 1024 * 1024;

interface ServeFlags {
  readonly model: string;
  readonly host: string;
  readonly port: number;
  readonly kvTransferConfig?: string;
  readonly kvEventsConfig?: string;
  readonly kvMemory?: number;
  readonly contextTokensMax?: number;
  readonly blockSize: number;
  readonly sequencesMax: number;
  readonly tokensPerStepMax: number;
  readonly requestSlots: number;
  readonly modelThreads: number;
  readonly pool: boolean;
  readonly prefixCachingHashAlgo: HashAlgorithmName;
  readonly trace?: string;
  readonly record?: string;
  readonly debugRoutes?: boolean;
  readonly admin?: boolean;
  readonly cache?: string;
  readonly logLevel: string;
}

export function addServeCommand(program: Command): void {
  program
    .command("serve")
    .description(
      "serve a language model over an OpenAI-compatible HTTP interface, with a shared KV-cache pool",
    )
    .option(
      "--model <name>",
      "tiny (generated, no download), smollm2, or the path of a Llama-family GGUF file",
      "tiny",
    )
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option(
      "--port <number>",
      "port to listen on, 0 for any free one",
      wholeNumber("--port", 0, 65_535),
      8000,
    )
    .option("--kv-transfer-config <json>", "vLLM's KV-transfer configuration, as it is")
    .option("--kv-events-config <json>", "vLLM's configuration of KV events, as it is")
    .option(
      "--kv-memory <size>",
      "memory for KV blocks (default: 512mb, or what one request of full length needs)",
      sizeBytes("--kv-memory"),
    )
    .option(
      "--context-tokens-max <number>",
      "shorter context than the model's",
      wholeNumber("--context-tokens-max", 16, 1 << 20),
    )
    .option("--block-size <tokens>", "tokens a block", wholeNumber("--block-size", 1, 1024), 16)
    .option(
      "--sequences-max <number>",
      "requests that run at a time",
      wholeNumber("--sequences-max", 1, 1024),
      16,
    )
    .option(
      "--tokens-per-step-max <number>",
      "tokens computed in one step",
      wholeNumber("--tokens-per-step-max", 1, 65_536),
      512,
    )
    .option(
      "--request-slots <number>",
      "requests waiting or running",
      wholeNumber("--request-slots", 1, 65_536),
      1024,
    )
    .option(
      "--model-threads <number>",
      "threads of one model run",
      wholeNumber("--model-threads", 1, 256),
      1,
    )
    .addOption(hashAlgorithmOption())
    .option("--no-pool", "local prefix cache only")
    .option("--trace <file>", "write a Chrome trace (Perfetto opens it) until the server stops")
    .option("--record <folder>", "record all steps of all actors there, for a replay (slower)")
    .option("--debug-routes", "add POST /debug/drop_local_cache and GET /debug/state")
    .option("--admin", "POST /reset_prefix_cache on any address; on loopback it is always there")
    .option("--cache <folder>", "where downloaded and converted models are kept")
    .addOption(
      new Option("--log-level <level>", "how much is logged on standard error")
        .choices(["trace", "debug", "info", "warn", "error", "silent"])
        .default("info"),
    )
    .action(serve);
}

async function serve(flags: ServeFlags): Promise<void> {
  const environment = readEnvironment(process.env);
  const { config: connector, warnings } = parseTransferConfig(
    flags.kvTransferConfig,
    environment,
    flags.pool,
  );
  const events = readKvEventSettings(flags.kvEventsConfig, environment);
  // A model takes minutes to fetch and convert: whatever can be wrong with the options is looked at first.
  await checkListenable(flags);
  if (flags.trace !== undefined) checkTraceFile(flags.trace);
  if (flags.record !== undefined) prepareRecordFolder(flags.record);
  const log = pino(
    { name: "mooncake-kv", level: flags.logLevel },
    destination({ fd: 2, sync: true }),
  );
  for (const warning of [...warnings, ...events.warnings])
    log.warn({ field: warning.field, value: warning.value }, formatWarning(warning));
  const native = loadNative();
  const publisher = await openPublisher(events.settings, {
    dataParallelRank: 0,
    wallClockMs: Date.now,
    log,
  });
  const { integerHashes } = events.settings;
  const progress = new ProgressLine(process.stderr);
  const preparation = prepareModel(flags.model, {
    cacheFolder: flags.cache ?? defaultCacheFolder(process.env),
    blockSize: flags.blockSize,
    ...(flags.contextTokensMax === undefined ? {} : { contextTokensMax: flags.contextTokensMax }),
    onProgress: ({ text, fraction }) => progress.show(text, fraction),
  });
  const model = await orClose(publisher, preparation);
  progress.show(`starting ${model.modelName}`);
  const start = Application.start({
    native,
    model,
    connector,
    hashSeed: environment.hashSeed,
    blockCount:
      flags.kvMemory === undefined
        ? defaultBlockCount(model, KV_BYTES)
        : givenBlockCount(model, flags.kvMemory, "--kv-memory"),
    requestSlots: flags.requestSlots,
    sequencesMax: flags.sequencesMax,
    tokensPerStepMax: flags.tokensPerStepMax,
    modelThreads: flags.modelThreads,
    hashAlgorithm: flags.prefixCachingHashAlgo,
    pool: flags.pool,
    logLevel: flags.logLevel,
    log,
    http: {
      host: flags.host,
      port: flags.port,
      debugRoutes: flags.debugRoutes === true,
      ...(flags.admin === true ? { adminRoutes: true } : {}),
    },
    kvEvents: publisher === null ? undefined : { publisher, integerHashes },
    traceFile: flags.trace ?? null,
    recordFolder: flags.record,
    random: Math.random,
    wallClockMs: Date.now,
  });
  const application = await orClose(publisher, start);
  progress.clear();
  // The one line on standard output: scripts wait for it and read the address.
  process.stdout.write(
    `mooncake-kv serves ${model.modelName} on ${application.server?.url ?? ""}\n`,
  );
  stopOnSignal(application, log);
  dumpOnSignal(application);
  const failure = await application.failed;
  process.stderr.write(`mooncake-kv: ${failure.message}\n`);
  await application.stop();
  process.exit(1);
}

/** Waits for a part of the start; when it fails the open publisher does not keep the process alive. */
async function orClose<Part>(
  publisher: KvEventPublisher | null,
  part: Promise<Part>,
): Promise<Part> {
  try {
    return await part;
  } catch (error) {
    await publisher?.close();
    throw error;
  }
}

/** SIGUSR2 writes what everything has in hand to standard error, as JSON: for a server that seems stuck. */
function dumpOnSignal(application: Application): void {
  process.on("SIGUSR2", () => {
    application.dumpState().then(
      (state) => process.stderr.write(`${JSON.stringify(state, null, 2)}\n`),
      (error: unknown) => process.stderr.write(`mooncake-kv: no state: ${String(error)}\n`),
    );
  });
}

function stopOnSignal(application: Application, log: { info(text: string): void }): void {
  const stop = (signal: NodeJS.Signals): void => {
    log.info(`${signal}: draining and stopping`);
    application.stop().then(
      (inFlight) => process.exit(inFlight === 0 ? 0 : 1),
      (error: unknown) => {
        process.stderr.write(`mooncake-kv: ${String(error)}\n`);
        process.exit(1);
      },
    );
  };
  process.once("SIGINT", stop);
  process.once("SIGTERM", stop);
}
