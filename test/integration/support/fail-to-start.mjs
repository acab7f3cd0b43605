// A process in which the whole application fails to start, in one way after another. Whatever a failed start left behind (a
// thread, a port, a timer) would keep the process from ending by itself.
import { createServer } from "node:net";
import { Application } from "../../../dist/serving/application.js";
import { applicationOptions as options } from "./application-options.mjs";

const taken = createServer();
await new Promise((resolve) => taken.listen(0, "127.0.0.1", resolve));
const { port } = taken.address();
const graph = { kind: "bytes", bytes: new Uint8Array(1000).fill(7) };
const attempts = {
  model: { model: { ...options.model, graph } },
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
