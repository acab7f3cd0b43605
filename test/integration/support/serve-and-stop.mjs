// A process that serves one answer with the whole application, stops it, and must then end by itself.
import { readEnvironment } from "../../../dist/config/environment.js";
import { parseTransferConfig } from "../../../dist/config/transfer-config.js";
import { loadNative } from "../../../dist/native/load.js";
import { Application } from "../../../dist/serving/application.js";
import { prepareModel } from "../../../dist/serving/model/prepare-model.js";

const quiet = () => undefined;
const { config: connector } = parseTransferConfig(undefined, readEnvironment({}));
const application = await Application.start({
  native: loadNative(),
  model: await prepareModel("tiny", { cacheFolder: "unused", contextTokensMax: 512 }),
  connector,
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
});
const response = await fetch(`${application.server.url}/v1/completions`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ model: "tiny", prompt: "x".repeat(100), max_tokens: 20 }),
});
const answer = await response.json();
const inFlight = await application.stop();
console.log(`stopped ${inFlight} ${answer.usage.prompt_tokens}`);
