// A process whose lookups another one answers: asks for each prompt and prints what was found, and how the lookup ended.
import { attachConnector } from "../../../dist/index.js";

const { kvCache, prompts } = JSON.parse(process.argv[2]);
const attached = await attachConnector({
  kvCache,
  kvTransferConfig: {
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_both",
    kv_connector_extra_config: { engine: "local", lookup_rpc_port: 7, lookup_rpc_role: "client" },
  },
  blockPool: { pin: () => undefined, unpin: () => undefined },
  logLevel: "error",
});
const { scheduler } = attached.connector;
const found = prompts.map((prompt, index) => {
  const id = String(index);
  scheduler.addRequest(id, prompt);
  const [tokens] = scheduler.getNumNewMatchedTokens(id, 0);
  const outcome = scheduler.outcome(id);
  scheduler.requestFinished(id);
  return [tokens, outcome];
});
await attached.stop();
console.log(JSON.stringify(found));
