import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { destination, pino } from "pino";
import { FINISH_LENGTH } from "../../src/actors/messages.ts";
import { defaultBlockCount } from "../../src/cli/block-count.ts";
import { readEnvironment } from "../../src/config/environment.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";
import { loadNative } from "../../src/native/load.ts";
import { Application } from "../../src/serving/application.ts";
import type { RequestSummary } from "../../src/serving/front-end-types.ts";
import { prepareModel } from "../../src/serving/model/prepare-model.ts";
import type { PreparedModel } from "../../src/serving/model/prepared-model.ts";
import { packageRoot } from "../../src/worker-entry.ts";

const KV_BYTES = 256 * 1024 * 1024;
const POOL_BYTES = 1024 * 1024 * 1024;
const SAVE_WAIT_MS = 60_000;
let pools = 0;

export async function modelOf(name: string, contextTokensMax: number): Promise<PreparedModel> {
  return await prepareModel(name, {
    cacheFolder: join(packageRoot(), ".cache", "models"),
    contextTokensMax,
  });
}

/** A serving process without HTTP: actor threads, model thread, and a local pool of its own (none with `pool` false). */
export async function startServing(
  model: PreparedModel,
  options: {
    readonly pool: boolean;
    readonly modelThreads: number;
    /** Default 1 GiB. */
    readonly poolBytesMax?: number;
    /** A Chrome trace of the run, to see what the time goes into. */
    readonly traceFile?: string | undefined;
    /** A real pool by the path of its store's JSON, with settings of the connector; default: a local pool of its own. */
    readonly store?: {
      readonly path: string;
      readonly settings: Readonly<Record<string, unknown>>;
    };
  },
): Promise<Application> {
  const { store } = options;
  const environment = readEnvironment(
    store === undefined
      ? {}
      : { MOONCAKE_CONFIG_PATH: store.path, MOONCAKE_REQUESTER_LOCAL_HOSTNAME: "127.0.0.1" },
  );
  const { config } = parseTransferConfig(
    {
      kv_connector: "MooncakeStoreConnector",
      kv_role: "kv_both",
      kv_connector_extra_config: {
        engine: store === undefined ? "local" : "mooncake",
        lookup_async: true,
        ...store?.settings,
        pool_name: `bench-${process.pid}-${pools++}`,
      },
    },
    environment,
  );
  const application = await Application.start({
    native: loadNative(),
    model,
    connector: {
      ...config,
      local: { ...config.local, bytesMax: options.poolBytesMax ?? POOL_BYTES },
    },
    hashSeed: environment.hashSeed,
    blockCount: defaultBlockCount(model, KV_BYTES),
    requestSlots: 64,
    sequencesMax: 8,
    tokensPerStepMax: 512,
    modelThreads: options.modelThreads,
    pool: options.pool,
    logLevel: "warn",
    log: pino({ name: "mooncake-kv", level: "warn" }, destination({ fd: 2, sync: true })),
    http: null,
    traceFile: options.traceFile ?? null,
    random: () => 0.5,
    wallClockMs: () => 0,
  });
  touchKvMemory(application);
  return application;
}

/**
 * Has the system back all KV memory with pages. Else every block's first use, by the model or by a load, would pay page
 * faults, which a server that has run for a while does not.
 */
function touchKvMemory({ runtime }: Application): void {
  new Uint8Array(runtime.native.regionView(runtime.regionIds[0]!)).fill(0);
}

export interface Answer {
  readonly tokens: readonly number[];
  /** Hash of the raw logits of each token. */
  readonly logitsHashes: readonly string[];
  readonly summary: RequestSummary;
}

/** A greedy request of fixed length through the front end. Throws when it is refused or ends early. */
export async function ask(
  { frontEnd }: Application,
  id: string,
  promptTokens: Int32Array,
  maxTokens: number,
  cacheSalt?: string,
): Promise<Answer> {
  const tokens: number[] = [];
  const logitsHashes: string[] = [];
  const summary = await new Promise<RequestSummary>((resolve, reject) => {
    const handle = frontEnd.submit(
      {
        id,
        promptTokens,
        maxTokens,
        temperature: 0,
        topP: 1,
        seed: 1,
        cacheSalt,
        ignoreEndTokens: true,
      },
      {
        token: (token, _index, _logprob, _top, logitsHash) => {
          tokens.push(token);
          logitsHashes.push(logitsHash);
        },
        finished: resolve,
      },
    );
    if (!handle.ok) reject(new Error(`${id} is refused (${handle.reason}): ${handle.remedy}`));
  });
  if (summary.reason !== FINISH_LENGTH || tokens.length !== maxTokens)
    throw new Error(`${id} ended with reason ${summary.reason} after ${tokens.length} tokens`);
  return { tokens, logitsHashes, summary };
}

/** Waits until nothing is put any more: every block of the finished requests is saved. */
export async function saved({ runtime }: Application): Promise<void> {
  const { native, engineId } = runtime;
  let seen = -1;
  for (let waitedMs = 0; waitedMs < SAVE_WAIT_MS; waitedMs += 50) {
    const { puts, batchesInFlight } = native.engineStatistics(engineId);
    if (puts === seen && puts > 0 && batchesInFlight === 0) return;
    seen = puts;
    await sleep(50);
  }
  throw new Error("the blocks do not get into the pool");
}

/** Deterministic, and unlike every other prompt from its first token on. */
export class Prompts {
  #state = 0x2545f491;

  next(tokens: number, vocabulary: number): Int32Array {
    return Int32Array.from({ length: tokens }, () => {
      // Xorshift: the state comes back after 2 ** 32 - 1 tokens.
      let state = this.#state;
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      this.#state = state;
      return (state >>> 0) % vocabulary;
    });
  }
}
