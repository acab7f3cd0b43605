// A process in which the whole application fails to start, in one way after another. Whatever a failed start left behind (a
// thread, a port, a timer) would keep the process from ending by itself.
import { createServer } from "node:net";
import { readEnvironment } from "../../../dist/config/environment.js";
import { parseTransferConfig } from "../../../dist/config/transfer-config.js";
import { loadNative } from "../../../dist/native/load.js";
import { Application } from "../../../dist/serving/application.js";
import { prepareModel } from "../../../dist/serving/model/prepare-model.js";

const quiet = () => undefined;
const { config: connector } = parseTransferConfig(undefined, readEnvironment({}));
const model = await prepareModel("tiny", { cacheFolder: "unused", contextTokensMax: 512 });
const options = {
  native: loadNative(),
  model,
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
};
const taken = createServer();
await new Promise((resolve) => taken.listen(0, "127.0.0.1", resolve));
const { port } = taken.address();
const graph = { kind: "bytes", bytes: new Uint8Array(1000).fill(7) };
const attempts = {
  model: { model: { ...model, graph } },
  port: { http: { ...options.http, port } },
  trace: { traceFile: "/no/such/folder/trace.json" },
  blocks: { blockCount: 3 },
  sequences: { sequencesMax: 0 },
};
const codes = {};
for (const [name, more] of Object.entries(attempts)) {
  try {
    await Application.start({ ...options, ...more });
    codes[name] = "started";
  } catch (error) {
    codes[name] = error.code ?? "no code";
  }
}
taken.close();
// The same pool, the same process: still usable after all that.
const application = await Application.start(options);
codes.inFlight = await application.stop();
console.log(JSON.stringify(codes));
