import type { LayerWeight, LlamaConfig, WeightSource, WeightTensor } from "./llama-config.ts";

/**
 * The generated model: small enough to start in a blink, shaped like a real Llama (grouped-query attention, several layers).
 * Its vocabulary is the 256 bytes, a few special tokens and unused ids.
 */
export const TINY_CONFIG: LlamaConfig = {
  layerCount: 4,
  queryHeadCount: 4,
  kvHeadCount: 2,
  headSize: 32,
  hiddenSize: 128,
  feedForwardSize: 352,
  vocabularySize: 512,
  contextTokensMax: 4096,
  ropeTheta: 10000,
  ropeLinearFactor: 1,
  ropeFrequencyFactors: [],
  normEpsilon: 1e-5,
  tiedEmbedding: false,
};

export const TINY_SEED = 7;

const PRINTABLE_SCALE = 4;
const OTHER_SCALE = 0.125;

/**
 * Seeded random weights for any small configuration, scaled so that activations keep their size through the layers.
 *
 * The output columns of printable ASCII are made louder than the others: a random model then writes readable nonsense
 * instead of broken UTF-8, and answers can be compared by eye.
 */
export function seededWeights(config: LlamaConfig, seed: number): WeightSource {
  const { hiddenSize, feedForwardSize, queryHeadCount, kvHeadCount, headSize } = config;
  const matrix = (
    name: string,
    rows: number,
    columns: number,
    deviation: number,
  ): WeightTensor => ({
    dimensions: [rows, columns],
    data: normalNumbers(rows * columns, deviation, hashText(name) ^ seed),
  });
  const projection = (name: string, rows: number, columns: number): WeightTensor =>
    matrix(name, rows, columns, 1 / Math.sqrt(rows));
  const norm = (): WeightTensor => ({
    dimensions: [hiddenSize],
    data: new Float32Array(hiddenSize).fill(1),
  });
  const shapes: Record<LayerWeight, readonly [rows: number, columns: number] | undefined> = {
    attention_norm: undefined,
    query: [hiddenSize, queryHeadCount * headSize],
    key: [hiddenSize, kvHeadCount * headSize],
    value: [hiddenSize, kvHeadCount * headSize],
    attention_output: [queryHeadCount * headSize, hiddenSize],
    feed_forward_norm: undefined,
    gate: [hiddenSize, feedForwardSize],
    up: [hiddenSize, feedForwardSize],
    down: [feedForwardSize, hiddenSize],
  };
  return {
    layer: (layer, weight) => {
      const shape = shapes[weight];
      return shape === undefined
        ? norm()
        : projection(`layer.${layer}.${weight}`, shape[0], shape[1]);
    },
    embedding: () => matrix("embedding", config.vocabularySize, hiddenSize, 1),
    finalNorm: norm,
    output: () => {
      const tensor = projection("output", hiddenSize, config.vocabularySize);
      for (let at = 0; at < tensor.data.length; at++) {
        const token = at % config.vocabularySize;
        tensor.data[at]! *= token >= 32 && token < 127 ? PRINTABLE_SCALE : OTHER_SCALE;
      }
      return tensor;
    },
  };
}

/** Box-Muller over a small seeded generator; the same numbers on every machine. */
function normalNumbers(count: number, deviation: number, seed: number): Float32Array {
  const next = uniformNumbers(seed);
  const numbers = new Float32Array(count);
  for (let index = 0; index < count; index += 2) {
    const radius = Math.sqrt(-2 * Math.log(1 - next())) * deviation;
    const angle = 2 * Math.PI * next();
    numbers[index] = radius * Math.cos(angle);
    if (index + 1 < count) numbers[index + 1] = radius * Math.sin(angle);
  }
  return numbers;
}

/** The mulberry32 generator: numbers in [0, 1). */
function uniformNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}

function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++)
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return hash >>> 0;
}
