import { DOWNLOAD_AGAIN, modelInvalid, modelUnsupported } from "./gguf-errors.ts";
import type { GgufFile } from "./gguf-reader.ts";
import type { LayerWeight, LlamaConfig, WeightSource, WeightTensor } from "./llama-config.ts";

const OTHER_MODEL =
  "Give a model of the plain Llama architecture (Llama, SmolLM, Mistral, TinyLlama and the like).";

const HEAD_SIZE_MAX = 1 << 16;
/** Cosines and sines of a long context: allowed to a small file too. */
const ROPE_BYTES_MAX = 1 << 26;

const LAYER_TENSORS: Record<LayerWeight, string> = {
  attention_norm: "attn_norm",
  query: "attn_q",
  key: "attn_k",
  value: "attn_v",
  attention_output: "attn_output",
  feed_forward_norm: "ffn_norm",
  gate: "ffn_gate",
  up: "ffn_up",
  down: "ffn_down",
};

/** Reads the configuration and checks that the file holds exactly the tensors of such a model, in the right shapes. */
export function llamaConfigOf(file: GgufFile): LlamaConfig {
  const hiddenSize = integerOf(file, "llama.embedding_length");
  const queryHeadCount = integerOf(file, "llama.attention.head_count");
  const headSize = integerOf(file, "llama.attention.key_length", hiddenSize / queryHeadCount);
  const frequencies = ropeFrequenciesOf(file);
  const config: LlamaConfig = {
    layerCount: integerOf(file, "llama.block_count"),
    queryHeadCount,
    kvHeadCount: integerOf(file, "llama.attention.head_count_kv", queryHeadCount),
    headSize,
    hiddenSize,
    feedForwardSize: integerOf(file, "llama.feed_forward_length"),
    vocabularySize: file.tensors.get("token_embd.weight")?.dimensions[1] ?? 0,
    contextTokensMax: integerOf(file, "llama.context_length"),
    ropeTheta: numberOf(file, "llama.rope.freq_base", 10000),
    ropeLinearFactor: linearFactorOf(file),
    ropeFrequencyFactors: frequencies,
    normEpsilon: numberOf(file, "llama.attention.layer_norm_rms_epsilon"),
    tiedEmbedding: !file.tensors.has("output.weight"),
  };
  refuseVariants(file, config);
  checkSizes(file, config);
  checkTensors(file, config);
  return config;
}

function ropeFrequenciesOf(file: GgufFile): readonly number[] {
  const tensor = file.tensors.get("rope_freqs.weight");
  if (tensor === undefined) return [];
  if (tensor.elementCount > HEAD_SIZE_MAX) {
    throw modelInvalid(
      file.path,
      "rope_freqs.weight has a wrong size",
      DOWNLOAD_AGAIN,
      tensor.elementCount,
    );
  }
  return [...file.readTensor("rope_freqs.weight")];
}

/** Numbers that no tensor's size bears out may not take more memory than the file could ask for. */
function checkSizes(file: GgufFile, config: LlamaConfig): void {
  const layersMax = Math.floor(file.tensors.size / Object.keys(LAYER_TENSORS).length);
  if (config.layerCount > layersMax) {
    throw modelInvalid(
      file.path,
      `llama.block_count says ${config.layerCount} layers, the file has tensors for at most ${layersMax}`,
      DOWNLOAD_AGAIN,
    );
  }
  if (config.headSize > HEAD_SIZE_MAX) {
    throw modelInvalid(file.path, "the heads are absurdly large", DOWNLOAD_AGAIN, config.headSize);
  }
  const tableBytes = config.contextTokensMax * config.headSize * Float32Array.BYTES_PER_ELEMENT;
  const tableBytesMax = Math.max(ROPE_BYTES_MAX, file.fileBytes);
  if (tableBytes > tableBytesMax) {
    throw modelInvalid(
      file.path,
      `llama.context_length asks for ${tableBytes} bytes of rotary angles, more than the whole file has`,
      "Correct the key, or download the file again.",
      config.contextTokensMax,
    );
  }
}

/** Weights in the graph's orientation; every tensor is decoded when it is asked for and not kept. */
export function llamaWeightsOf(file: GgufFile, config: LlamaConfig): WeightSource {
  const vector = (name: string): WeightTensor => {
    const data = file.readTensor(name);
    return { dimensions: [data.length], data };
  };
  const matrix = (name: string, rotatedHeads: number): WeightTensor => {
    const [inputs = 0, outputs = 0] = file.tensors.get(name)?.dimensions ?? [];
    let data = file.readTensor(name);
    if (rotatedHeads > 0) data = splitRotaryHalves(data, rotatedHeads, config.headSize, inputs);
    return { dimensions: [inputs, outputs], data: transpose(data, outputs, inputs) };
  };
  return {
    embedding: () => ({
      dimensions: [config.vocabularySize, config.hiddenSize],
      data: file.readTensor("token_embd.weight"),
    }),
    finalNorm: () => vector("output_norm.weight"),
    output: () => matrix("output.weight", 0),
    layer: (layer, weight) => {
      const name = layerTensor(layer, weight);
      if (weight === "attention_norm" || weight === "feed_forward_norm") return vector(name);
      const rotated =
        weight === "query" ? config.queryHeadCount : weight === "key" ? config.kvHeadCount : 0;
      return matrix(name, rotated);
    },
  };
}

function layerTensor(layer: number, weight: LayerWeight): string {
  return `blk.${layer}.${LAYER_TENSORS[weight]}.weight`;
}

function numberOf(file: GgufFile, key: string, otherwise?: number): number {
  const value = file.metadata.get(key) ?? otherwise;
  if (typeof value === "number" && Number.isFinite(value) && value > 0) return value;
  if (value === undefined)
    throw modelInvalid(file.path, `the metadata key ${key} is missing`, OTHER_MODEL);
  throw modelInvalid(
    file.path,
    `the metadata key ${key} is no positive number`,
    OTHER_MODEL,
    value,
  );
}

function integerOf(file: GgufFile, key: string, otherwise?: number): number {
  const value = numberOf(file, key, otherwise);
  if (Number.isInteger(value)) return value;
  throw modelInvalid(file.path, `the metadata key ${key} is no integer`, OTHER_MODEL, value);
}

/** As llama.cpp takes it: the factor counts where no type stands, and has an older name. */
function linearFactorOf(file: GgufFile): number {
  const type = file.metadata.get("llama.rope.scaling.type") ?? "linear";
  if (type === "none") return 1;
  if (type !== "linear") {
    throw modelUnsupported(
      file.path,
      "this kind of RoPE scaling is not built",
      "Give a model without it.",
      type,
    );
  }
  const key = file.metadata.has("llama.rope.scaling.factor")
    ? "llama.rope.scaling.factor"
    : "llama.rope.scale_linear";
  return file.metadata.get(key) === 0 ? 1 : numberOf(file, key, 1);
}

/** Llama files may carry variants that the graph does not compute; a wrong answer would be worse than none. */
function refuseVariants(file: GgufFile, config: LlamaConfig): void {
  const refuse = (problem: string, value: unknown): never => {
    throw modelUnsupported(file.path, problem, OTHER_MODEL, value);
  };
  const rotated = file.metadata.get("llama.rope.dimension_count") ?? config.headSize;
  if (rotated !== config.headSize)
    refuse("rotating only a part of each head is not built", rotated);
  const valueSize = file.metadata.get("llama.attention.value_length") ?? config.headSize;
  if (valueSize !== config.headSize)
    refuse("value heads of another size than key heads are not built", valueSize);
  const vocabulary = file.metadata.get("llama.vocab_size") ?? config.vocabularySize;
  if (vocabulary !== config.vocabularySize)
    refuse("llama.vocab_size is not the number of rows of the embedding", vocabulary);
  if (config.headSize % 2 !== 0) refuse("an odd head size cannot be rotated", config.headSize);
  if (config.queryHeadCount % config.kvHeadCount !== 0) {
    refuse("the query heads are no multiple of the key heads", config.queryHeadCount);
  }
  const factors = config.ropeFrequencyFactors.length;
  if (factors !== 0 && factors !== config.headSize / 2)
    refuse("rope_freqs.weight has a wrong size", factors);
}

/** Every expected tensor with its shape, and no other: an extra one (a bias, say) would silently be left out. */
function checkTensors(file: GgufFile, config: LlamaConfig): void {
  const { hiddenSize, feedForwardSize, headSize } = config;
  const querySize = config.queryHeadCount * headSize;
  const kvSize = config.kvHeadCount * headSize;
  const layerShapes: Record<LayerWeight, readonly number[]> = {
    attention_norm: [hiddenSize],
    query: [hiddenSize, querySize],
    key: [hiddenSize, kvSize],
    value: [hiddenSize, kvSize],
    attention_output: [querySize, hiddenSize],
    feed_forward_norm: [hiddenSize],
    gate: [hiddenSize, feedForwardSize],
    up: [hiddenSize, feedForwardSize],
    down: [feedForwardSize, hiddenSize],
  };
  const expected = new Map<string, readonly number[]>([
    ["token_embd.weight", [hiddenSize, config.vocabularySize]],
    ["output_norm.weight", [hiddenSize]],
  ]);
  if (!config.tiedEmbedding) expected.set("output.weight", [hiddenSize, config.vocabularySize]);
  for (let layer = 0; layer < config.layerCount; layer++) {
    for (const weight of Object.keys(layerShapes) as LayerWeight[]) {
      expected.set(layerTensor(layer, weight), layerShapes[weight]);
    }
  }
  for (const [name, shape] of expected) {
    const tensor = file.tensors.get(name);
    if (tensor === undefined)
      throw modelInvalid(file.path, `the tensor ${name} is missing`, DOWNLOAD_AGAIN);
    if (tensor.dimensions.join() === shape.join()) continue;
    const problem = `the tensor ${name} should have the shape [${shape.join(", ")}]`;
    throw modelInvalid(file.path, problem, DOWNLOAD_AGAIN, tensor.dimensions);
  }
  for (const name of file.tensors.keys()) {
    if (expected.has(name) || name === "rope_freqs.weight") continue;
    throw modelUnsupported(
      file.path,
      `the tensor ${name} belongs to no plain Llama model`,
      OTHER_MODEL,
    );
  }
}

/** [rows, columns] to [columns, rows], in tiles that stay in the processor's cache. */
function transpose(source: Float32Array, rows: number, columns: number): Float32Array {
  const TILE = 32;
  const target = new Float32Array(source.length);
  for (let rowStart = 0; rowStart < rows; rowStart += TILE) {
    const rowEnd = Math.min(rows, rowStart + TILE);
    for (let columnStart = 0; columnStart < columns; columnStart += TILE) {
      const columnEnd = Math.min(columns, columnStart + TILE);
      for (let row = rowStart; row < rowEnd; row++) {
        for (let column = columnStart; column < columnEnd; column++) {
          target[column * rows + row] = source[row * columns + column]!;
        }
      }
    }
  }
  return target;
}

/** GGUF files hold query and key rows with the two rotary halves interleaved; the graph wants one half after the other. */
function splitRotaryHalves(
  source: Float32Array,
  heads: number,
  headSize: number,
  columns: number,
): Float32Array {
  const target = new Float32Array(source.length);
  const half = headSize / 2;
  for (let row = 0; row < heads * headSize; row++) {
    const within = row % headSize;
    const to = row - within + (within % 2) * half + (within >> 1);
    target.set(source.subarray(row * columns, (row + 1) * columns), to * columns);
  }
  return target;
}
