/**
 * Goal: the graph computes what the Llama architecture defines, rotary scaling included.
 * Method: a plain forward pass in double precision, written here from the definition (no cache, no batching, loops over single
 * numbers), must give the same logits within float32 rounding, also when the graph takes the prompt in steps.
 */
import { expect, test } from "vitest";
import type {
  LayerWeight,
  LlamaConfig,
  WeightSource,
} from "../../src/serving/model/llama-config.ts";
import { generateModel } from "../../src/serving/model/prepare-model.ts";
import { TINY_CONFIG, seededWeights } from "../../src/serving/model/tiny-model.ts";
import { ModelHarness, someTokens } from "./model-support.ts";

type Vector = number[];

/** vector [in] times matrix [in, out]. */
function project(vector: Vector, matrix: Float32Array, columns: number): Vector {
  return Array.from({ length: columns }, (_, column) =>
    vector.reduce((sum, value, row) => sum + value * matrix[row * columns + column]!, 0),
  );
}

function normalize(vector: Vector, weight: Float32Array, epsilon: number): Vector {
  const mean = vector.reduce((sum, value) => sum + value * value, 0) / vector.length;
  return vector.map((value, index) => (value / Math.sqrt(mean + epsilon)) * weight[index]!);
}

/** Rotates number j of a head with number j + half by the position's angle. */
function rotate(head: Vector, position: number, config: LlamaConfig): Vector {
  const half = head.length / 2;
  return head.map((value, index) => {
    const pair = index % half;
    const scale = config.ropeLinearFactor * (config.ropeFrequencyFactors[pair] ?? 1);
    const angle = (position * config.ropeTheta ** (-pair / half)) / scale;
    return index < half
      ? value * Math.cos(angle) - head[index + half]! * Math.sin(angle)
      : value * Math.cos(angle) + head[index - half]! * Math.sin(angle);
  });
}

function headOf(vector: Vector, head: number, config: LlamaConfig): Vector {
  return vector.slice(head * config.headSize, (head + 1) * config.headSize);
}

function attend(query: Vector, keys: Vector[], values: Vector[]): Vector {
  const scores = keys.map(
    (key) =>
      key.reduce((sum, value, index) => sum + value * query[index]!, 0) / Math.sqrt(query.length),
  );
  const weights = scores.map((score) => Math.exp(score - Math.max(...scores)));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return query.map((_, index) =>
    values.reduce((sum, value, at) => sum + (weights[at]! / total) * value[index]!, 0),
  );
}

/** Logits after the last token. */
function referenceLogits(config: LlamaConfig, weights: WeightSource, tokens: Int32Array): Vector {
  const { hiddenSize, headSize, queryHeadCount, kvHeadCount, feedForwardSize, normEpsilon } =
    config;
  const embedding = weights.embedding().data;
  let hidden = Array.from(tokens, (token) => [
    ...embedding.subarray(token * hiddenSize, (token + 1) * hiddenSize),
  ]);
  for (let layer = 0; layer < config.layerCount; layer++) {
    const of = (weight: LayerWeight): Float32Array => weights.layer(layer, weight).data;
    const inputs = hidden.map((row) => normalize(row, of("attention_norm"), normEpsilon));
    const split = (weight: LayerWeight, heads: number, rotated: boolean): Vector[][] => {
      const matrix = of(weight);
      return inputs.map((row, position) => {
        const all = project(row, matrix, heads * headSize);
        return Array.from({ length: heads }, (_, head) =>
          rotated ? rotate(headOf(all, head, config), position, config) : headOf(all, head, config),
        );
      });
    };
    const queries = split("query", queryHeadCount, true);
    const keys = split("key", kvHeadCount, true);
    const values = split("value", kvHeadCount, false);
    const [output, gate, up, down] = [of("attention_output"), of("gate"), of("up"), of("down")];
    const feedForwardNorm = of("feed_forward_norm");
    hidden = hidden.map((row, position) => {
      const context = queries[position]!.flatMap((query, head) => {
        const shared = Math.floor(head / (queryHeadCount / kvHeadCount));
        const seen = (rows: Vector[][]): Vector[] =>
          rows.slice(0, position + 1).map((heads) => heads[shared]!);
        return attend(query, seen(keys), seen(values));
      });
      const attended = project(context, output, hiddenSize).map(
        (value, index) => value + row[index]!,
      );
      const normed = normalize(attended, feedForwardNorm, normEpsilon);
      const raised = project(normed, up, feedForwardSize);
      const gated = project(normed, gate, feedForwardSize).map(
        (value, index) => (value / (1 + Math.exp(-value))) * raised[index]!,
      );
      return project(gated, down, hiddenSize).map((value, index) => value + attended[index]!);
    });
  }
  const last = normalize(hidden.at(-1)!, weights.finalNorm().data, normEpsilon);
  if (!config.tiedEmbedding) return project(last, weights.output().data, config.vocabularySize);
  return Array.from({ length: config.vocabularySize }, (_, token) =>
    last.reduce((sum, value, index) => sum + value * embedding[token * hiddenSize + index]!, 0),
  );
}

const SMALL: LlamaConfig = {
  ...TINY_CONFIG,
  layerCount: 2,
  hiddenSize: 64,
  feedForwardSize: 96,
  headSize: 16,
};

test.each<[string, LlamaConfig]>([
  ["grouped queries", SMALL],
  ["a tied embedding and one key head", { ...SMALL, kvHeadCount: 1, tiedEmbedding: true }],
  [
    "as many key heads as query heads, other theta",
    { ...SMALL, kvHeadCount: 4, ropeTheta: 500_000 },
  ],
  ["linear rotary scaling", { ...SMALL, ropeLinearFactor: 4 }],
  ["rotary factors", { ...SMALL, ropeFrequencyFactors: [1, 1, 1.5, 2, 4, 8, 8, 8] }],
])("%s", async (_name, config) => {
  const tokens = someTokens(45, config.vocabularySize, 11);
  const expected = referenceLogits(config, seededWeights(config, 9), tokens);
  const harness = await ModelHarness.load(generateModel("reference", config, 9), 4);
  const sequence = harness.sequence(tokens);
  await harness.step({ sequence, count: 20 });
  await harness.step({ sequence, count: 24 });
  const [logits] = await harness.step({ sequence, count: 1 });
  const largest = Math.max(...expected.map(Math.abs));
  expected.forEach((value, token) => {
    expect(Math.abs(logits![token]! - value), `token ${token}`).toBeLessThan(largest * 1e-4);
  });
  await harness.runner.close();
});
