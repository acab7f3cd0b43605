// Options of the smallest whole application, for processes that run the compiled package by themselves.
import { readEnvironment } from "../../../dist/config/environment.js";
import { parseTransferConfig } from "../../../dist/config/transfer-config.js";
import { loadNative } from "../../../dist/native/load.js";
import { prepareModel } from "../../../dist/serving/model/prepare-model.js";

const quiet = () => undefined;

export const applicationOptions = {
  native: loadNative(),
  model: await prepareModel("tiny", { cacheFolder: "unused", contextTokensMax: 512 }),
  connector: parseTransferConfig(undefined, readEnvironment({})).config,
  hashSeed: null,
  blockCount: 64,
  requestSlots: 16,
  sequencesMax: 4,
  tokensPerStepMax: 128,
  modelThreads: 1,
  pool: true,
  logLevel: "silent",
  log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
  http: { host: "127.0.0.1", port: 0, debugRoutes: false },
  traceFile: null,
  random: Math.random,
  wallClockMs: Date.now,
};
