import { destination, pino } from "pino";
import { prepareRecordFolder } from "../actors/hosts/recording/record-folder.ts";
import { readEnvironment } from "../config/environment.ts";
import { OPEN_FILES_RUNTIME, openFilesProblem } from "../config/open-files.ts";
import { parseTransferConfig } from "../config/transfer-config.ts";
import { layoutLine } from "../config/kv-layout.ts";
import { formatWarning } from "../config/warnings.ts";
import type { KvEventPublisher } from "../events/publisher.ts";
import { openPublisher, readKvEventSettings } from "../events/settings.ts";
import { loadNative } from "../native/load.ts";
import { Application } from "../serving/application.ts";
import { checkListenable } from "../serving/listening.ts";
import { prepareModel } from "../serving/model/prepare-model.ts";
import { servedLayout } from "../serving/serving-runtime.ts";
import { checkTraceFile } from "../serving/serving-trace.ts";
import { accessOptions } from "./access-options.ts";
import { defaultBlockCount, givenBlockCount } from "./block-count.ts";
import { defaultCacheFolder } from "./options.ts";
import { errorText } from "./error-text.ts";
import { ProgressLine } from "./progress-line.ts";
import type { ServeFlags } from "./serve-command.ts";

const KV_BYTES = 512 * 1024 * 1024;

/** Serves until a signal, or until what it cannot do without is given up. */
export async function serve(flags: ServeFlags): Promise<void> {
  const fewFiles = openFilesProblem(OPEN_FILES_RUNTIME);
  if (fewFiles !== null) {
    process.stderr.write(`mooncake-kv: ${fewFiles}\n`);
    process.exitCode = 1;
    return;
  }
  const environment = readEnvironment(process.env);
  const { config: connector, warnings } = parseTransferConfig(
    flags.kvTransferConfig,
    environment,
    flags.pool,
  );
  const events = readKvEventSettings(flags.kvEventsConfig, environment);
  const access = accessOptions(flags, process.env);
  // A model takes minutes to fetch and convert: whatever can be wrong with the options is looked at first.
  await checkListenable(flags);
  if (flags.trace !== undefined) checkTraceFile(flags.trace);
  if (flags.record !== undefined) prepareRecordFolder(flags.record);
  const log = pino(
    { name: "mooncake-kv", level: flags.logLevel },
    destination({ fd: 2, sync: true }),
  );
  const layout = servedLayout(environment.kvCacheLayout);
  for (const warning of [...warnings, ...events.warnings, ...layout.warnings])
    log.warn({ field: warning.field, value: warning.value }, formatWarning(warning));
  log.info({ layout: layout.layout }, layoutLine(layout));
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
    onProgress({ stage, text, fraction }) {
      if (stage === "notice") log.warn(text);
      else progress.show(text, fraction);
    },
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
      ...access,
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
  stopOnSignal(application, log);
  dumpOnSignal(application);
  // The one line on standard output: scripts wait for it, read the address, and may send a signal at once.
  process.stdout.write(
    `mooncake-kv serves ${model.modelName} on ${application.server?.url ?? ""}\n`,
  );
  const failure = await application.failed;
  process.stderr.write(`mooncake-kv: ${failure.message}\n`);
  await stopAndExit(application, 1);
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
      (error: unknown) => process.stderr.write(`mooncake-kv: no state: ${errorText(error)}\n`),
    );
  });
}

function stopOnSignal(application: Application, log: { info(text: string): void }): void {
  const stop = (signal: NodeJS.Signals): void => {
    log.info(`${signal}: draining and stopping`);
    void stopAndExit(application, 0);
  };
  process.once("SIGINT", stop);
  process.once("SIGTERM", stop);
}

/** `code`: when the stop itself goes well. */
async function stopAndExit(application: Application, code: number): Promise<never> {
  let exitCode = code;
  try {
    if ((await application.stop()) > 0) exitCode = 1;
  } catch (error) {
    process.stderr.write(`mooncake-kv: ${errorText(error)}\n`);
    exitCode = 1;
  }
  process.exit(exitCode);
}
