/** Settings as a person or a program writes them. */
import { readEnvironment } from "../../../src/config/environment.ts";
import { parseKvEventsConfig } from "../../../src/config/kv-events-config.ts";
import { normalizeKvCacheConfig } from "../../../src/config/kv-cache-normalize.ts";
import { checkStoreConfig, parseStoreConfig } from "../../../src/config/store-config.ts";
import { parseTransferConfig } from "../../../src/config/transfer-config.ts";
import { formatWarning } from "../../../src/config/warnings.ts";
import type { KvCacheConfigInput } from "../../../src/config/kv-cache-config.ts";
import type { Attempt, Target } from "../attack.ts";
import { mutateBytes, mutateValue, WRONG_ARGUMENTS } from "../mutate.ts";

const ENVIRONMENT = readEnvironment({});
const TRANSFER = {
  kv_connector: "MooncakeStoreConnector",
  kv_role: "kv_both",
  engine_id: "one",
  kv_load_failure_policy: "recompute",
  kv_connector_extra_config: { engine: "local", load_async: true, lookup_timeout_ms: 1000 },
};
const EVENTS = {
  enable_kv_cache_events: true,
  publisher: "zmq",
  endpoint: "tcp://127.0.0.1:5557",
  replay_endpoint: "tcp://127.0.0.1:5558",
  buffer_steps: 100,
  hwm: 1000,
  max_queue_size: 100,
  topic: "kv",
};
const STORE = {
  metadata_server: "P2PHANDSHAKE",
  master_server_address: "127.0.0.1:50051",
  protocol: "tcp",
  device_name: "",
  global_segment_size: "1gb",
  local_buffer_size: 1 << 20,
};
const CACHE: KvCacheConfigInput = {
  modelName: "org/model",
  dtype: "float16",
  layout: "LBHNC",
  blockSize: 16,
  hashBlockSize: 16,
  groups: [{ kind: "full", layers: 2, blockSize: 16 }],
  heads: { kvHeads: 2, headSize: 8 },
  tp: { rank: 0, size: 1 },
  blockCount: 4,
};

const transfer = (given: unknown): void => {
  for (const warning of parseTransferConfig(given, ENVIRONMENT).warnings) formatWarning(warning);
};
const events = (given: unknown): void => {
  for (const warning of parseKvEventsConfig(given).warnings) formatWarning(warning);
};
const store = (given: unknown): void => {
  const config = parseStoreConfig(given);
  for (const warning of checkStoreConfig(given, config, null)) formatWarning(warning);
};
const cache = (given: unknown): unknown => normalizeKvCacheConfig(given as KvCacheConfigInput);

/** As objects, and where texts are taken also as JSON text with wrong bytes. */
function settings(
  name: string,
  good: unknown,
  read: (given: unknown) => unknown,
  texts: boolean,
): Target {
  return {
    name,
    open: () => ({
      try: (random): Attempt => {
        if (texts && random.below(2) === 0) {
          const text = mutateBytes(Buffer.from(JSON.stringify(good)), random).toString("utf8");
          return { input: text, bytes: text.length, run: () => read(text) };
        }
        const input = mutateValue(good, random, WRONG_ARGUMENTS);
        return { input, bytes: 0, run: () => read(input) };
      },
      heal: () => void read(good),
    }),
  };
}

export const CONFIGURATIONS: readonly Target[] = [
  settings("kv-transfer-config", TRANSFER, transfer, true),
  settings("kv-events-config", EVENTS, events, true),
  settings("store configuration", STORE, store, false),
  settings("kvCache", CACHE, cache, false),
];
