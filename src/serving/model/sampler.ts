import { MooncakeKvError } from "../../errors.ts";

export const TOP_LOGPROBS_MAX = 20;

export interface SamplingParameters {
  /** 0 takes the most likely token (the lowest id of equals); else logits are divided by it before sampling. */
  readonly temperature: number;
  /** Keeps the fewest most likely tokens whose probability reaches this, 0 < topP <= 1. */
  readonly topP: number;
  /** Safe integer. Together with the token index it decides the draw, so a token recomputed later comes out the same. */
  readonly seed: number;
  /** Most likely tokens to report besides the chosen one, 0 to 20; undefined reports no log-probabilities at all. */
  readonly topLogprobs?: number | undefined;
}

/** Filled by `sampleToken`; reused from token to token. Log-probabilities are of the raw logits, before the temperature. */
export interface SampledToken {
  tokenId: number;
  /** NaN when no log-probabilities were asked for. */
  logprob: number;
  /** Valid entries of the two arrays, most likely first. */
  topCount: number;
  readonly topTokenIds: Int32Array;
  readonly topLogprobs: Float32Array;
}

export function makeSampledToken(): SampledToken {
  return {
    tokenId: -1,
    logprob: Number.NaN,
    topCount: 0,
    topTokenIds: new Int32Array(TOP_LOGPROBS_MAX),
    topLogprobs: new Float32Array(TOP_LOGPROBS_MAX),
  };
}

/**
 * Chooses the next token from one sequence's logits. Pure: the same logits, parameters and token index give the same token.
 * `tokenIndex` is the index of the token within the sequence (prompt included or not, as long as it is always the same way).
 */
export function sampleToken(
  logits: Float32Array,
  parameters: SamplingParameters,
  tokenIndex: number,
  out: SampledToken,
): void {
  out.tokenId =
    parameters.temperature === 0
      ? mostLikely(logits)
      : draw(logits, parameters, uniformNumber(parameters.seed, tokenIndex));
  out.topCount = 0;
  out.logprob = Number.NaN;
  if (parameters.topLogprobs !== undefined) fillLogprobs(logits, parameters.topLogprobs, out);
}

/** Throws INVALID_VALUE naming the parameter that is out of range. */
export function checkSamplingParameters(parameters: SamplingParameters): void {
  const { temperature, topP, seed, topLogprobs } = parameters;
  const refuse = (field: string, value: unknown, remedy: string): never => {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field,
      value,
      problem: "this value is out of range",
      remedy,
    });
  };
  if (!(temperature >= 0 && temperature <= 100))
    refuse("temperature", temperature, "Give a number from 0 to 100.");
  if (!(topP > 0 && topP <= 1)) refuse("top_p", topP, "Give a number above 0 and up to 1.");
  if (!Number.isSafeInteger(seed))
    refuse("seed", seed, "Give an integer between -(2^53 - 1) and 2^53 - 1.");
  const topValid = topLogprobs === undefined || (Number.isInteger(topLogprobs) && topLogprobs >= 0);
  if (!topValid || (topLogprobs ?? 0) > TOP_LOGPROBS_MAX) {
    refuse("top_logprobs", topLogprobs, `Give an integer from 0 to ${TOP_LOGPROBS_MAX}.`);
  }
}

/** A number in [0, 1) that depends on the seed and the index only (two rounds of a 32-bit mixer, 53 bits taken). */
export function uniformNumber(seed: number, index: number): number {
  const low = seed | 0;
  const high = Math.floor(seed / 0x1_0000_0000) | 0;
  const key = mix(mix(low ^ 0x9e3779b9) ^ high);
  const first = mix(key ^ Math.imul(index + 1, 0x85ebca6b));
  const second = mix(first ^ key ^ 0xc2b2ae35);
  return ((first >>> 5) * 0x400_0000 + (second >>> 6)) / 0x20_0000_0000_0000;
}

function mix(value: number): number {
  let mixed = value ^ (value >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return mixed ^ (mixed >>> 16);
}

function mostLikely(logits: Float32Array): number {
  let best = 0;
  for (let token = 1; token < logits.length; token++)
    if (logits[token]! > logits[best]!) best = token;
  return best;
}

/** Scratch of the calling thread, grown to the vocabulary. */
let weights = new Float64Array(0);
let candidates = new Int32Array(0);

function draw(logits: Float32Array, parameters: SamplingParameters, uniform: number): number {
  if (weights.length < logits.length) {
    weights = new Float64Array(logits.length);
    candidates = new Int32Array(logits.length);
  }
  const largest = logits[mostLikely(logits)]!;
  let total = 0;
  for (let token = 0; token < logits.length; token++) {
    const weight = Math.exp((logits[token]! - largest) / parameters.temperature);
    weights[token] = weight;
    total += weight;
  }
  if (parameters.topP < 1) return drawFromNucleus(logits.length, total, parameters.topP, uniform);
  let rest = uniform * total;
  let last = 0;
  for (let token = 0; token < logits.length; token++) {
    if (weights[token] === 0) continue;
    last = token;
    rest -= weights[token]!;
    if (rest < 0) return token;
  }
  return last;
}

function drawFromNucleus(vocabulary: number, total: number, topP: number, uniform: number): number {
  // Tokens below this weight make up less than 1 - topP even all together, so the nucleus lies above: few need sorting.
  const least = ((1 - topP) * total) / vocabulary;
  let count = 0;
  for (let token = 0; token < vocabulary; token++)
    if (weights[token]! >= least) candidates[count++] = token;
  const sorted = candidates
    .subarray(0, count)
    .sort((left, right) => weights[right]! - weights[left]! || left - right);
  let kept = 0;
  let mass = 0;
  while (kept < count && (kept === 0 || mass < topP * total)) mass += weights[sorted[kept++]!]!;
  let rest = uniform * mass;
  for (let index = 0; index < kept; index++) {
    rest -= weights[sorted[index]!]!;
    if (rest < 0) return sorted[index]!;
  }
  return sorted[kept - 1]!;
}

function fillLogprobs(logits: Float32Array, topCount: number, out: SampledToken): void {
  const largest = logits[mostLikely(logits)]!;
  let sum = 0;
  for (let token = 0; token < logits.length; token++) sum += Math.exp(logits[token]! - largest);
  const logTotal = largest + Math.log(sum);
  out.logprob = logits[out.tokenId]! - logTotal;
  const wanted = Math.min(topCount, TOP_LOGPROBS_MAX, logits.length);
  let count = 0;
  // Insertion into a short sorted list: almost every token fails the first comparison.
  for (let token = 0; wanted > 0 && token < logits.length; token++) {
    const logit = logits[token]!;
    if (count === wanted && !(logit > logits[out.topTokenIds[count - 1]!]!)) continue;
    let at = count < wanted ? count++ : count - 1;
    for (; at > 0 && logits[out.topTokenIds[at - 1]!]! < logit; at--)
      out.topTokenIds[at] = out.topTokenIds[at - 1]!;
    out.topTokenIds[at] = token;
  }
  for (let index = 0; index < count; index++) {
    out.topLogprobs[index] = logits[out.topTokenIds[index]!]! - logTotal;
  }
  out.topCount = count;
}
