import { Runtime } from "../actors/runtime/runtime.ts";
import type { Log } from "../actors/step.ts";
import type { RestartLimits } from "../actors/supervision/restart-policy.ts";
import { JOBS_PER_REQUEST_SLOT } from "../blocks/capacities.ts";
import type { ConnectorConfig } from "../config/connector-config.ts";
import { DEFAULT_HASH_ALGORITHM } from "../config/kv-cache-config.ts";
import type { HashAlgorithmName, KvCacheConfig, KvLayout } from "../config/kv-cache-config.ts";
import { normalizeKvCacheConfig } from "../config/kv-cache-normalize.ts";
import { keptLayout } from "../config/kv-layout.ts";
import type { KvLayoutChoice, VllmKvLayout } from "../config/kv-layout.ts";
import { tableDimensions } from "../config/table-dimensions.ts";
import { MooncakeKvError } from "../errors.ts";
import type { NativeBinding } from "../native/binding.ts";
import { workerEntry } from "../worker-entry.ts";
import type { PreparedModel } from "./model/prepared-model.ts";
import type { ModelThreadData } from "./model-thread/model-thread.ts";

/** A real model needs its weights read and packed; 135M parameters take about 2 s, on a busy machine 10. */
const MODEL_START_TIMEOUT_MS = 180_000;

export interface ServingRuntimeOptions {
  readonly native: NativeBinding;
  readonly model: PreparedModel;
  readonly endTokenIds: readonly number[];
  readonly connector: ConnectorConfig;
  readonly hashSeed: string | null;
  /** KV blocks, block 0 (never used) included. */
  readonly blockCount: number;
  /** Requests that may be waiting, running or draining at a time. */
  readonly requestSlots: number;
  readonly sequencesMax: number;
  readonly tokensPerStepMax: number;
  /** onnxruntime threads of one model run. */
  readonly modelThreads: number;
  /** How block hashes are made; default vLLM's. The same in every process that shares the pool. */
  readonly hashAlgorithm?: HashAlgorithmName;
  /** False: local prefix cache only. */
  readonly pool: boolean;
  /** When an actor that keeps dying is given up. Default: RESTART_LIMITS. */
  readonly restartLimits?: RestartLimits;
  readonly trace: boolean;
  /** KV events are made, with this form of hashes. Default: none. */
  readonly kvEvents?: { readonly integerHashes: boolean } | undefined;
  /** Folder for recordings of all actors' steps; hosts/replay runs them again. Default: none. */
  readonly recordFolder?: string | undefined;
  readonly logLevel: string;
  readonly log: Log;
}

/** What the model's graph reads and writes in place: blocks outermost, one segment a block. */
const GRAPH_LAYOUT: KvLayout = "BLHNC";

/** The layout of `serve`, with a warning when VLLM_KV_CACHE_LAYOUT asks for another. */
export function servedLayout(requested: VllmKvLayout | undefined): KvLayoutChoice {
  const remedy = `Unset the variable, and give vLLM ${GRAPH_LAYOUT} or HND where it is to share these blocks.`;
  return keptLayout(GRAPH_LAYOUT, requested, "model", "the model's graph needs it", remedy);
}

/** KvCacheConfig of a model served here: one full-attention group. */
export function kvCacheConfigOf(
  model: PreparedModel,
  blockCount: number,
  hashAlgorithm: HashAlgorithmName = DEFAULT_HASH_ALGORITHM,
): KvCacheConfig {
  const { config } = model;
  return normalizeKvCacheConfig({
    modelName: model.modelName,
    dtype: "float32",
    layout: GRAPH_LAYOUT,
    blockSize: model.blockSize,
    groups: [{ kind: "full", layers: config.layerCount }],
    heads: { kvHeads: config.kvHeadCount, headSize: config.headSize },
    blockCount,
    hashAlgorithm,
    weightsFingerprint: model.weightsFingerprint,
  });
}

/** Starts all actors for serving `model` with the built-in scheduler. */
export async function startServingRuntime(options: ServingRuntimeOptions): Promise<Runtime> {
  const { model, blockCount, sequencesMax, tokensPerStepMax } = options;
  checkCapacity(options);
  const kvCache = kvCacheConfigOf(model, blockCount, options.hashAlgorithm);
  const dimensions = tableDimensions(kvCache, {
    requestSlots: options.requestSlots,
    jobSlots: JOBS_PER_REQUEST_SLOT * options.requestSlots,
    tokensPerRequestMax: model.contextTokensMax,
    // Waiting requests hold token rows too: room for every slot at a quarter of the context, and for one at the whole.
    tokensMax: Math.max(
      model.contextTokensMax,
      Math.ceil((options.requestSlots * model.contextTokensMax) / 4),
    ),
    stepSequencesMax: sequencesMax,
  });
  return await Runtime.start({
    native: options.native,
    kvCache,
    connector: options.connector,
    hashSeed: options.hashSeed,
    dimensions,
    kvMemory: { kind: "managed" },
    scheduler: {
      tokensPerStepMax,
      sequencesMax,
      endTokenIds: options.endTokenIds,
      contextTokensMax: model.contextTokensMax,
      pool: options.pool,
    },
    modelThread: (plan, regionId) => ({
      entry: workerEntry("serving/model-thread/model-thread.js"),
      workerData: {
        plan,
        model,
        regionId,
        blockCount,
        threads: options.modelThreads,
        sequencesMax,
        tokensPerStepMax,
      } satisfies Omit<ModelThreadData, "epoch" | "control">,
      startTimeoutMs: MODEL_START_TIMEOUT_MS,
    }),
    ...(options.restartLimits === undefined ? {} : { restartLimits: options.restartLimits }),
    trace: options.trace,
    kvEvents: options.kvEvents,
    recordFolder: options.recordFolder,
    logLevel: options.logLevel,
    log: options.log,
  });
}

function checkCapacity(options: ServingRuntimeOptions): void {
  const { model, blockCount } = options;
  // One request of full length must fit, with the null block beside it: else it could wait for ever.
  const needed = Math.ceil(model.contextTokensMax / model.blockSize) + 1;
  if (blockCount >= needed) return;
  throw new MooncakeKvError({
    code: "CAPACITY",
    field: "blockCount",
    value: blockCount,
    problem: `a request of ${model.contextTokensMax} tokens needs ${needed} blocks of ${model.blockSize} tokens`,
    remedy: `Give at least ${needed} blocks, or a smaller context.`,
  });
}
