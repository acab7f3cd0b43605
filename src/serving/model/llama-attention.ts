import type { LlamaGraph } from "./llama-graph.ts";
import { ELEMENT_TYPE } from "./onnx-writer.ts";

/** Values that all layers share: computed once per step. Shapes: B sequences, S tokens, T = blocks * blockSize positions. */
export interface AttentionValues {
  readonly inputIds: string;
  /** [B, 1, S, headSize / 2] */
  readonly cosine: string;
  readonly sine: string;
  /** [B, 1, 1, S, T]: 0 where a position may be attended to, hugely negative elsewhere. */
  readonly mask: string;
  /** [B, kvHeads, blocks]: pool rows of the keys of layer 0. */
  readonly poolRows: string;
  /** [B, kvHeads, S, 1]: rows, among the gathered [B * kvHeads * T], that the step's own tokens occupy. */
  readonly ownRows: string;
}

export interface Projections {
  /** [B, S, queryHeads * headSize] */
  readonly query: string;
  /** [B, S, kvHeads * headSize] */
  readonly key: string;
  readonly value: string;
}

/** Adding it to a score of ordinary size leaves nothing of the score after the softmax: the weight is exactly 0. */
const MASKED = -1e9;

/** Adds what depends on the step's inputs only: rotary rows, causal mask, row numbers. */
export function prepareAttention(
  graph: LlamaGraph,
  inputs: { inputIds: string; cosineTable: string; sineTable: string },
): AttentionValues {
  const { builder, config } = graph;
  const unsqueeze = (value: string, axes: readonly number[]): string =>
    builder.operation("Unsqueeze", [value, builder.int64(axes)]);
  const sizeOf = (value: string, axis: number): string =>
    builder.operation("Gather", [builder.operation("Shape", [value]), builder.int64(axis)], {
      axis: { int: 0 },
    });
  const range = (end: string): string =>
    builder.operation("Range", [builder.int64(0), end, builder.int64(1)]);
  const toInt64 = (value: string): string =>
    builder.operation("Cast", [value], { to: { int: ELEMENT_TYPE.int64 } });
  const tableRows = (table: string): string =>
    unsqueeze(builder.operation("Gather", [table, positions], { axis: { int: 0 } }), [1]);

  const positions = toInt64("position_ids");
  const blockTable = toInt64("block_table");
  const blockSize = builder.operation("Div", [
    sizeOf("kv_pool", 1),
    builder.int64(config.headSize),
  ]);
  const positionCount = builder.operation("Mul", [sizeOf("block_table", 1), blockSize]);
  // In a paged cache the index of a gathered row is its position, so causality is one comparison.
  const visible = builder.operation("LessOrEqual", [
    unsqueeze(range(positionCount), [0, 1]),
    unsqueeze(positions, [2]),
  ]);
  const mask = builder.operation("Where", [visible, builder.float32(0), builder.float32(MASKED)]);

  const heads = unsqueeze(range(builder.int64(config.kvHeadCount)), [0, 2]);
  const blockRows = builder.operation("Mul", [
    unsqueeze(blockTable, [1]),
    builder.int64(config.layerCount * 2 * config.kvHeadCount),
  ]);
  const sequences = unsqueeze(range(sizeOf("input_ids", 0)), [1, 2]);
  const sequenceHeads = builder.operation("Add", [
    builder.operation("Mul", [sequences, builder.int64(config.kvHeadCount)]),
    heads,
  ]);
  const firstRows = builder.operation("Mul", [sequenceHeads, positionCount]);
  return {
    inputIds: inputs.inputIds,
    cosine: tableRows(inputs.cosineTable),
    sine: tableRows(inputs.sineTable),
    mask: unsqueeze(mask, [1, 2]),
    poolRows: builder.operation("Add", [blockRows, heads]),
    ownRows: unsqueeze(builder.operation("Add", [firstRows, unsqueeze(positions, [1])]), [3]),
  };
}

/** Adds one layer's attention and its `new.{layer}.*` outputs; returns the context [B, S, queryHeads * headSize]. */
export function addAttention(
  graph: LlamaGraph,
  shared: AttentionValues,
  layer: number,
  projections: Projections,
): string {
  const { builder, config } = graph;
  const { queryHeadCount, kvHeadCount, headSize } = config;
  const rotatedQuery = addRotation(
    graph,
    shared,
    addHeads(graph, projections.query, queryHeadCount),
  );
  const rotatedKey = addRotation(graph, shared, addHeads(graph, projections.key, kvHeadCount));
  const keys = addPagedRows(graph, shared, layer, "key", rotatedKey);
  const values = addPagedRows(
    graph,
    shared,
    layer,
    "value",
    addHeads(graph, projections.value, kvHeadCount),
  );

  // The query heads that share a key head become rows of one matrix, so keys and values are never repeated.
  const scaled = builder.operation("Mul", [rotatedQuery, builder.float32(1 / Math.sqrt(headSize))]);
  const grouped = builder.operation("Reshape", [
    scaled,
    builder.int64([0, kvHeadCount, -1, headSize]),
  ]);
  const transposedKeys = builder.operation("Transpose", [keys], { perm: { ints: [0, 1, 3, 2] } });
  const scores = builder.operation("MatMul", [grouped, transposedKeys]);
  const size = (value: string, axis: number): string =>
    builder.operation("Shape", [value], { start: { int: axis }, end: { int: axis + 1 } });
  const groupedShape = builder.operation(
    "Concat",
    [
      size(rotatedQuery, 0),
      builder.int64([kvHeadCount, queryHeadCount / kvHeadCount]),
      size(rotatedQuery, 2),
      size(keys, 2),
    ],
    { axis: { int: 0 } },
  );
  const masked = builder.operation("Add", [
    builder.operation("Reshape", [scores, groupedShape]),
    shared.mask,
  ]);
  const probabilities = builder.operation("Softmax", [masked], { axis: { int: -1 } });
  const flat = builder.operation("Reshape", [probabilities, builder.operation("Shape", [scores])]);
  const context = builder.operation("MatMul", [flat, values]);
  const perHead = builder.operation("Reshape", [
    context,
    builder.operation("Shape", [rotatedQuery]),
  ]);
  const perToken = builder.operation("Transpose", [perHead], { perm: { ints: [0, 2, 1, 3] } });
  return builder.operation("Reshape", [perToken, builder.int64([0, 0, queryHeadCount * headSize])]);
}

/** [B, S, heads * headSize] to [B, heads, S, headSize]. */
function addHeads(graph: LlamaGraph, projected: string, headCount: number): string {
  const { builder, config } = graph;
  const split = builder.operation("Reshape", [
    projected,
    builder.int64([0, 0, headCount, config.headSize]),
  ]);
  return builder.operation("Transpose", [split], { perm: { ints: [0, 2, 1, 3] } });
}

/** Rotary positions, the two halves of a head rotated against each other. */
function addRotation(graph: LlamaGraph, shared: AttentionValues, heads: string): string {
  const { builder, config } = graph;
  const half = config.headSize / 2;
  const [first, second] = [builder.freshName(), builder.freshName()];
  builder.node("Split", [heads, builder.int64([half, half])], { axis: { int: -1 } }, [
    first,
    second,
  ]);
  const multiply = (left: string, right: string): string => builder.operation("Mul", [left, right]);
  const rotatedFirst = builder.operation("Sub", [
    multiply(first, shared.cosine),
    multiply(second, shared.sine),
  ]);
  const rotatedSecond = builder.operation("Add", [
    multiply(second, shared.cosine),
    multiply(first, shared.sine),
  ]);
  return builder.operation("Concat", [rotatedFirst, rotatedSecond], { axis: { int: -1 } });
}

/** Gathers a layer's keys or values through the block table and lays the step's own rows over them: [B, kvHeads, T, headSize]. */
function addPagedRows(
  graph: LlamaGraph,
  shared: AttentionValues,
  layer: number,
  kind: "key" | "value",
  ownRows: string,
): string {
  const { builder, config } = graph;
  const { kvHeadCount, headSize } = config;
  const output = `new.${layer}.${kind}`;
  builder.operation("Identity", [ownRows], {}, output);
  builder.output(output, ELEMENT_TYPE.float32, ["batch", kvHeadCount, "tokens", headSize]);
  const firstRow = (layer * 2 + (kind === "key" ? 0 : 1)) * kvHeadCount;
  const rowNumbers = builder.operation("Add", [shared.poolRows, builder.int64(firstRow)]);
  const gathered = builder.operation("Gather", ["kv_pool", rowNumbers], { axis: { int: 0 } });
  const flat = builder.operation("Reshape", [gathered, builder.int64([-1, headSize])]);
  const complete = builder.operation("ScatterND", [flat, shared.ownRows, ownRows]);
  const batch = builder.operation("Shape", [gathered], { start: { int: 0 }, end: { int: 1 } });
  const shape = builder.operation("Concat", [batch, builder.int64([kvHeadCount, -1, headSize])], {
    axis: { int: 0 },
  });
  return builder.operation("Reshape", [complete, shape]);
}
