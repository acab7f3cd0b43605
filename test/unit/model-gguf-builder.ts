/** Writes small GGUF files for tests: a header of metadata and tensors, with the data given as raw bytes. */
import { Buffer } from "node:buffer";
import type {
  LlamaConfig,
  LayerWeight,
  WeightSource,
} from "../../src/serving/model/llama-config.ts";

export type MetadataValue =
  | { readonly uint32: number }
  | { readonly float32: number }
  | { readonly bool: boolean }
  | { readonly text: string }
  | { readonly texts: readonly string[] }
  | { readonly int32s: readonly number[] }
  | { readonly float32s: readonly number[] };

export interface TensorData {
  readonly name: string;
  readonly dimensions: readonly number[];
  readonly typeNumber: number;
  readonly bytes: Uint8Array;
}

export interface GgufContent {
  readonly metadata: Readonly<Record<string, MetadataValue>>;
  readonly tensors: readonly TensorData[];
  readonly magic?: string;
  readonly version?: number;
}

export function ggufBytes(content: GgufContent): Buffer {
  const parts: Buffer[] = [
    Buffer.from(content.magic ?? "GGUF", "latin1"),
    uint32(content.version ?? 3),
  ];
  parts.push(uint64(content.tensors.length), uint64(Object.keys(content.metadata).length));
  for (const [key, value] of Object.entries(content.metadata))
    parts.push(text(key), ...valueBytes(value));
  let offset = 0;
  for (const tensor of content.tensors) {
    parts.push(
      text(tensor.name),
      uint32(tensor.dimensions.length),
      ...tensor.dimensions.map(uint64),
    );
    parts.push(uint32(tensor.typeNumber), uint64(offset));
    offset += Math.ceil(tensor.bytes.byteLength / 32) * 32;
  }
  pad(parts);
  for (const tensor of content.tensors) {
    parts.push(Buffer.from(tensor.bytes));
    pad(parts);
  }
  return Buffer.concat(parts);
}

export function float32Bytes(numbers: Float32Array): Uint8Array {
  return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
}

/** Metadata of a Llama with a byte-level BPE vocabulary of the given tokens (type 3: control). */
export function llamaMetadata(
  config: LlamaConfig,
  tokens: readonly string[],
  controls: ReadonlySet<string>,
): Record<string, MetadataValue> {
  return {
    "general.architecture": { text: "llama" },
    "llama.block_count": { uint32: config.layerCount },
    "llama.embedding_length": { uint32: config.hiddenSize },
    "llama.feed_forward_length": { uint32: config.feedForwardSize },
    "llama.context_length": { uint32: config.contextTokensMax },
    "llama.attention.head_count": { uint32: config.queryHeadCount },
    "llama.attention.head_count_kv": { uint32: config.kvHeadCount },
    "llama.attention.layer_norm_rms_epsilon": { float32: config.normEpsilon },
    "llama.rope.freq_base": { float32: config.ropeTheta },
    "tokenizer.ggml.model": { text: "gpt2" },
    "tokenizer.ggml.pre": { text: "gpt-2" },
    "tokenizer.ggml.tokens": { texts: tokens },
    "tokenizer.ggml.token_type": { int32s: tokens.map((token) => (controls.has(token) ? 3 : 1)) },
    "tokenizer.ggml.merges": { texts: [] },
  };
}

/** All weights of a source as F32 tensors in the file's own orientation and row order. */
export function llamaTensors(config: LlamaConfig, weights: WeightSource): TensorData[] {
  const vector = (name: string, data: Float32Array): TensorData => ({
    name,
    dimensions: [data.length],
    typeNumber: 0,
    bytes: float32Bytes(data),
  });
  const matrix = (
    name: string,
    [inputs = 0, outputs = 0]: readonly number[],
    data: Float32Array,
    rotated = false,
  ): TensorData => {
    const rows = new Float32Array(data.length);
    const half = config.headSize / 2;
    for (let output = 0; output < outputs; output++) {
      const head = Math.floor(output / config.headSize);
      const within = output % config.headSize;
      // The file interleaves the halves: row 2j is number j of the first half, row 2j + 1 of the second.
      const row = rotated
        ? head * config.headSize + (within % half) * 2 + Math.floor(within / half)
        : output;
      for (let input = 0; input < inputs; input++)
        rows[row * inputs + input] = data[input * outputs + output]!;
    }
    return { name, dimensions: [inputs, outputs], typeNumber: 0, bytes: float32Bytes(rows) };
  };
  const names: readonly [LayerWeight, string][] = [
    ["attention_norm", "attn_norm"],
    ["query", "attn_q"],
    ["key", "attn_k"],
    ["value", "attn_v"],
    ["attention_output", "attn_output"],
    ["feed_forward_norm", "ffn_norm"],
    ["gate", "ffn_gate"],
    ["up", "ffn_up"],
    ["down", "ffn_down"],
  ];
  const embedding = weights.embedding().data;
  const tensors: TensorData[] = [
    {
      name: "token_embd.weight",
      dimensions: [config.hiddenSize, config.vocabularySize],
      typeNumber: 0,
      bytes: float32Bytes(embedding),
    },
    vector("output_norm.weight", weights.finalNorm().data),
  ];
  if (!config.tiedEmbedding) {
    const output = weights.output();
    tensors.push(matrix("output.weight", output.dimensions, output.data));
  }
  for (let layer = 0; layer < config.layerCount; layer++) {
    for (const [weight, fileName] of names) {
      const tensor = weights.layer(layer, weight);
      const name = `blk.${layer}.${fileName}.weight`;
      if (tensor.dimensions.length === 1) tensors.push(vector(name, tensor.data));
      else
        tensors.push(
          matrix(name, tensor.dimensions, tensor.data, weight === "query" || weight === "key"),
        );
    }
  }
  return tensors;
}

function valueBytes(value: MetadataValue): Buffer[] {
  if ("uint32" in value) return [uint32(4), uint32(value.uint32)];
  if ("float32" in value) return [uint32(6), Buffer.from(new Float32Array([value.float32]).buffer)];
  if ("bool" in value) return [uint32(7), Buffer.from([value.bool ? 1 : 0])];
  if ("text" in value) return [uint32(8), text(value.text)];
  if ("texts" in value)
    return [uint32(9), uint32(8), uint64(value.texts.length), ...value.texts.map(text)];
  if ("float32s" in value) {
    const numbers = Buffer.from(Float32Array.from(value.float32s).buffer);
    return [uint32(9), uint32(6), uint64(value.float32s.length), numbers];
  }
  return [
    uint32(9),
    uint32(5),
    uint64(value.int32s.length),
    Buffer.from(Int32Array.from(value.int32s).buffer),
  ];
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, "utf8");
  return Buffer.concat([uint64(bytes.length), bytes]);
}

function pad(parts: Buffer[]): void {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  parts.push(Buffer.alloc((32 - (length % 32)) % 32));
}
