/** Shape and constants of a Llama-family decoder: what the graph needs besides the weights. Plain data. */
export interface LlamaConfig {
  readonly layerCount: number;
  readonly queryHeadCount: number;
  readonly kvHeadCount: number;
  readonly headSize: number;
  readonly hiddenSize: number;
  readonly feedForwardSize: number;
  readonly vocabularySize: number;
  /** Longest sequence in tokens that the model was made for; the RoPE table has this many rows. */
  readonly contextTokensMax: number;
  readonly ropeTheta: number;
  /** Divides every rotary frequency (linear scaling); 1 when unscaled. */
  readonly ropeLinearFactor: number;
  /** Divides each rotary frequency by its own factor (Llama 3.1 and later); `headSize / 2` numbers, or empty. */
  readonly ropeFrequencyFactors: readonly number[];
  readonly normEpsilon: number;
  /** The output matrix is the embedding matrix. */
  readonly tiedEmbedding: boolean;
}

export interface WeightTensor {
  readonly dimensions: readonly number[];
  readonly data: Float32Array;
}

/** Matrices of one layer, in the order in which the graph uses them. */
export type LayerWeight =
  | "attention_norm"
  | "query"
  | "key"
  | "value"
  | "attention_output"
  | "feed_forward_norm"
  | "gate"
  | "up"
  | "down";

/**
 * Where weights come from. Matrices are [in, out] in row-major order, ready for MatMul; norms are vectors; the embedding is
 * [vocabulary, hidden]. Each tensor is asked for once and may be dropped afterwards.
 */
export interface WeightSource {
  layer(layer: number, weight: LayerWeight): WeightTensor;
  embedding(): WeightTensor;
  finalNorm(): WeightTensor;
  /** Asked for only when the embedding is not tied. */
  output(): WeightTensor;
}

/** float32 numbers of one row of the pool: the keys or the values of one head in one layer of one block. */
export function rowElements(config: LlamaConfig, blockSize: number): number {
  return blockSize * config.headSize;
}

/** Rows of the pool that one block takes: [layers][key, value][kvHeads]. */
export function rowsPerBlock(config: LlamaConfig): number {
  return config.layerCount * 2 * config.kvHeadCount;
}

/** Bytes of one block: one contiguous run [layers][key, value][kvHeads][blockSize][headSize] of float32. */
export function blockBytesOf(config: LlamaConfig, blockSize: number): number {
  return rowsPerBlock(config) * rowElements(config, blockSize) * Float32Array.BYTES_PER_ELEMENT;
}
