import { addAttention, prepareAttention } from "./llama-attention.ts";
import type { AttentionValues } from "./llama-attention.ts";
import type { LayerWeight, LlamaConfig, WeightSource, WeightTensor } from "./llama-config.ts";
import { ropeTables } from "./llama-rope.ts";
import { ELEMENT_TYPE, OnnxGraphBuilder } from "./onnx-writer.ts";
import type { ExternalData } from "./onnx-writer.ts";

/**
 * Takes a weight's bytes and says where they were put, or undefined to keep them inside the graph file. The bytes belong to
 * the caller and must be copied or written before returning.
 */
export type WeightSink = (name: string, bytes: Uint8Array) => ExternalData | undefined;

/** What the parts of the graph share while it is built. */
export interface LlamaGraph {
  readonly builder: OnnxGraphBuilder;
  readonly config: LlamaConfig;
  readonly addWeight: (name: string, tensor: WeightTensor) => string;
}

/**
 * Builds the paged Llama decoder (RMSNorm, rotary positions, grouped-query attention, SwiGLU) as one ONNX graph in float32.
 *
 * Inputs (B sequences, S tokens each, N blocks each): `input_ids` int32 [B, S], `position_ids` int32 [B, S], `block_table`
 * int32 [B, N], `last_index` int32 [B, 1] (which of the S rows wants logits) and `kv_pool` float32
 * [blocks * layers * 2 * kvHeads, blockSize * headSize]. Outputs: `logits` [B, 1, vocabulary] and, per layer,
 * `new.{layer}.key` and `new.{layer}.value` [B, kvHeads, S, headSize], which the caller scatters into the pool: the runtime
 * would copy a whole pool that came back as an output. The block size is read from the pool's shape, so one graph serves all.
 * A shorter sequence of a batch is padded by repeating its last token with its position: the same row is written twice with
 * the same values.
 */
export function buildLlamaGraph(
  config: LlamaConfig,
  weights: WeightSource,
  sink: WeightSink,
): Uint8Array<ArrayBuffer> {
  const builder = new OnnxGraphBuilder("paged_llama");
  const graph: LlamaGraph = {
    builder,
    config,
    addWeight: (name, tensor) => {
      const bytes = new Uint8Array(
        tensor.data.buffer,
        tensor.data.byteOffset,
        tensor.data.byteLength,
      );
      return builder.initializer(
        name,
        ELEMENT_TYPE.float32,
        tensor.dimensions,
        sink(name, bytes) ?? bytes,
      );
    },
  };
  const attention = declareInputs(graph);
  const embedding = graph.addWeight("embedding", weights.embedding());
  let hidden = builder.operation("Gather", [embedding, attention.inputIds], { axis: { int: 0 } });
  for (let layer = 0; layer < config.layerCount; layer++) {
    hidden = addLayer(graph, weights, attention, layer, hidden);
  }
  addLogits(graph, weights, embedding, hidden);
  return builder.finish({ layout: "paged", layers: String(config.layerCount) });
}

function declareInputs(graph: LlamaGraph): AttentionValues {
  const { builder, config } = graph;
  const inputIds = builder.input("input_ids", ELEMENT_TYPE.int32, ["batch", "tokens"]);
  builder.input("position_ids", ELEMENT_TYPE.int32, ["batch", "tokens"]);
  builder.input("block_table", ELEMENT_TYPE.int32, ["batch", "blocks"]);
  builder.input("last_index", ELEMENT_TYPE.int32, ["batch", 1]);
  builder.input("kv_pool", ELEMENT_TYPE.float32, ["pool_rows", "row_elements"]);
  const tables = ropeTables(config);
  const dimensions = [config.contextTokensMax, config.headSize / 2];
  return prepareAttention(graph, {
    inputIds,
    cosineTable: graph.addWeight("rope_cosine", { dimensions, data: tables.cosine }),
    sineTable: graph.addWeight("rope_sine", { dimensions, data: tables.sine }),
  });
}

function addLayer(
  graph: LlamaGraph,
  weights: WeightSource,
  attention: AttentionValues,
  layer: number,
  hidden: string,
): string {
  const { builder } = graph;
  const weight = (name: LayerWeight): string =>
    graph.addWeight(`layer.${layer}.${name}`, weights.layer(layer, name));
  const project = (input: string, name: LayerWeight): string =>
    builder.operation("MatMul", [input, weight(name)]);

  const attentionInput = addNorm(graph, hidden, weight("attention_norm"));
  const query = project(attentionInput, "query");
  const key = project(attentionInput, "key");
  const value = project(attentionInput, "value");
  const context = addAttention(graph, attention, layer, { query, key, value });
  const afterAttention = builder.operation("Add", [hidden, project(context, "attention_output")]);

  const feedForwardInput = addNorm(graph, afterAttention, weight("feed_forward_norm"));
  const gate = project(feedForwardInput, "gate");
  const activated = builder.operation("Mul", [gate, builder.operation("Sigmoid", [gate])]);
  const product = builder.operation("Mul", [activated, project(feedForwardInput, "up")]);
  return builder.operation("Add", [afterAttention, project(product, "down")]);
}

/** Only the row of each sequence that may be sampled goes through the output matrix. */
function addLogits(
  graph: LlamaGraph,
  weights: WeightSource,
  embedding: string,
  hidden: string,
): void {
  const { builder, config } = graph;
  const rows = builder.operation("Unsqueeze", [
    builder.operation("Cast", ["last_index"], { to: { int: ELEMENT_TYPE.int64 } }),
    builder.int64([2]),
  ]);
  const wanted = builder.operation("GatherND", [hidden, rows], { batch_dims: { int: 1 } });
  const normed = addNorm(graph, wanted, graph.addWeight("final_norm", weights.finalNorm()));
  const output = config.tiedEmbedding
    ? builder.operation("Transpose", [embedding], { perm: { ints: [1, 0] } })
    : graph.addWeight("output", weights.output());
  builder.operation("MatMul", [normed, output], {}, "logits");
  builder.output("logits", ELEMENT_TYPE.float32, ["batch", 1, config.vocabularySize]);
}

function addNorm(graph: LlamaGraph, input: string, weight: string): string {
  return graph.builder.operation("RMSNormalization", [input, weight], {
    axis: { int: -1 },
    epsilon: { float: graph.config.normEpsilon },
    stash_type: { int: ELEMENT_TYPE.float32 },
  });
}
