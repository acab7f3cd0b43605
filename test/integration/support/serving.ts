import { readEnvironment } from "../../../src/config/environment.ts";
import { parseTransferConfig } from "../../../src/config/transfer-config.ts";
import type { NativeBinding } from "../../../src/native/binding.ts";
import { loadNative } from "../../../src/native/load.ts";
import { Application, type ApplicationOptions } from "../../../src/serving/application.ts";
import { prepareModel } from "../../../src/serving/model/prepare-model.ts";
import type { PreparedModel } from "../../../src/serving/model/prepared-model.ts";
import { LogLines } from "./log-lines.ts";

export const CONTEXT_TOKENS_MAX = 1024;

let pools = 0;

/** A pool name that no other test of any process uses. */
export function freshPoolName(): string {
  return `integration-${process.pid}-${pools++}`;
}

/** The generated model, prepared once a process. */
let tiny: Promise<PreparedModel> | undefined;
export function tinyModel(): Promise<PreparedModel> {
  return (tiny ??= prepareModel("tiny", {
    cacheFolder: "unused",
    contextTokensMax: CONTEXT_TOKENS_MAX,
  }));
}

export interface Serving {
  readonly application: Application;
  readonly native: NativeBinding;
  readonly log: LogLines;
}

/** A whole serving process without HTTP unless asked for: real actor threads, addon, local engine, pool of its own. */
export async function startServing(
  extra: Readonly<Record<string, unknown>> = {},
  options: Partial<ApplicationOptions> = {},
  environment: Readonly<Record<string, string>> = {},
): Promise<Serving> {
  const { config: connector } = parseTransferConfig(
    {
      kv_connector: "MooncakeStoreConnector",
      kv_role: "kv_both",
      kv_connector_extra_config: {
        engine: "local",
        lookup_async: true,
        pool_name: freshPoolName(),
        ...extra,
      },
    },
    readEnvironment(environment),
  );
  const [log, native] = [new LogLines(), loadNative()];
  const application = await Application.start({
    native,
    model: options.model ?? (await tinyModel()),
    connector,
    hashSeed: null,
    blockCount: 512,
    requestSlots: 32,
    sequencesMax: 8,
    tokensPerStepMax: 256,
    modelThreads: 1,
    pool: true,
    logLevel: "silent",
    log,
    http: null,
    traceFile: null,
    random: () => 0.25,
    wallClockMs: () => 1_700_000_000_000,
    ...options,
  });
  return { application, native, log };
}
