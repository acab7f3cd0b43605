/**
 * Goal: sampling is deterministic by seed and token index, follows the asked-for distribution, and reports right
 * log-probabilities; the logits hash sees every bit.
 * Method: draws over many token indexes compared with the softmax computed here; a brute-force nucleus; single flipped bits.
 */
import { describe, expect, test } from "vitest";
import { logitsHash, logitsHashText } from "../../src/serving/model/logits-hash.ts";
import {
  checkSamplingParameters,
  makeSampledToken,
  sampleToken,
  uniformNumber,
} from "../../src/serving/model/sampler.ts";
import type { SamplingParameters } from "../../src/serving/model/sampler.ts";

const LOGITS = Float32Array.of(0.5, 2, -1, 2.5, 0, 1, -3, 2.5);
const GREEDY: SamplingParameters = { temperature: 0, topP: 1, seed: 1 };

function softmax(logits: Float32Array, temperature = 1): number[] {
  const weights = Array.from(logits, (logit) => Math.exp(logit / temperature));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

function frequencies(parameters: SamplingParameters, draws: number): number[] {
  const out = makeSampledToken();
  const counts = Array.from(LOGITS, () => 0);
  for (let index = 0; index < draws; index++) {
    sampleToken(LOGITS, parameters, index, out);
    counts[out.tokenId]!++;
  }
  return counts.map((count) => count / draws);
}

describe("choice", () => {
  test("temperature 0 takes the most likely token, the lower id of equals", () => {
    const out = makeSampledToken();
    sampleToken(LOGITS, GREEDY, 0, out);
    expect(out.tokenId).toBe(3);
    expect(out.logprob).toBeNaN();
    expect(out.topCount).toBe(0);
  });

  test.each([0.5, 1, 2])("temperature %d follows its softmax", (temperature) => {
    const found = frequencies({ temperature, topP: 1, seed: 42 }, 20_000);
    softmax(LOGITS, temperature).forEach((probability, token) => {
      // Five standard deviations of a share over 20,000 draws are below 0.018.
      expect(Math.abs(found[token]! - probability), `token ${token}`).toBeLessThan(0.018);
    });
  });

  test.each([0.2, 0.5, 0.8, 0.95])("top_p %d keeps the smallest sufficient set", (topP) => {
    const probabilities = softmax(LOGITS);
    const order = probabilities
      .map((_, token) => token)
      .toSorted((a, b) => probabilities[b]! - probabilities[a]! || a - b);
    const kept: number[] = [];
    for (let mass = 0; mass < topP;) {
      const token = order[kept.length]!;
      kept.push(token);
      mass += probabilities[token]!;
    }
    const mass = kept.reduce((sum, token) => sum + probabilities[token]!, 0);
    const found = frequencies({ temperature: 1, topP, seed: 7 }, 20_000);
    found.forEach((share, token) => {
      const expected = kept.includes(token) ? probabilities[token]! / mass : 0;
      expect(Math.abs(share - expected), `token ${token}`).toBeLessThan(
        expected === 0 ? 1e-12 : 0.018,
      );
    });
  });

  test("the same seed and index give the same token, another seed another sequence", () => {
    const sequence = (seed: number): number[] => {
      const out = makeSampledToken();
      return Array.from({ length: 50 }, (_, index) => {
        sampleToken(LOGITS, { temperature: 1.5, topP: 0.99, seed }, index, out);
        return out.tokenId;
      });
    };
    expect(sequence(5)).toEqual(sequence(5));
    const seeds = [5, 6, -5, 5 + 2 ** 32, Number.MAX_SAFE_INTEGER];
    expect(new Set(seeds.map((seed) => sequence(seed).join())).size).toBe(seeds.length);
  });

  test("the uniform numbers are even in [0, 1) over indexes and over seeds", () => {
    for (const draw of [(i: number) => uniformNumber(9, i), (i: number) => uniformNumber(i, 0)]) {
      const buckets = Array.from({ length: 10 }, () => 0);
      for (let index = 0; index < 20_000; index++) buckets[Math.floor(draw(index) * 10)]!++;
      for (const count of buckets) expect(Math.abs(count - 2000)).toBeLessThan(220);
    }
  });
});

describe("log-probabilities", () => {
  test("of the chosen token and the most likely ones, before the temperature", () => {
    const out = makeSampledToken();
    const logprobs = softmax(LOGITS).map(Math.log);
    sampleToken(LOGITS, { temperature: 0.3, topP: 0.9, seed: 3, topLogprobs: 4 }, 11, out);
    expect(out.logprob).toBeCloseTo(logprobs[out.tokenId]!, 6);
    expect(out.topCount).toBe(4);
    expect([...out.topTokenIds.subarray(0, 4)]).toEqual([3, 7, 1, 5]);
    [3, 7, 1, 5].forEach((token, rank) =>
      expect(out.topLogprobs[rank]).toBeCloseTo(logprobs[token]!, 5),
    );
  });

  test("none, zero and more than the vocabulary", () => {
    const out = makeSampledToken();
    sampleToken(LOGITS, { ...GREEDY, topLogprobs: 0 }, 0, out);
    expect(out.topCount).toBe(0);
    expect(out.logprob).toBeCloseTo(Math.log(softmax(LOGITS)[3]!), 6);
    sampleToken(LOGITS, { ...GREEDY, topLogprobs: 20 }, 0, out);
    expect(out.topCount).toBe(8);
    sampleToken(LOGITS, GREEDY, 0, out);
    expect(out.logprob).toBeNaN();
  });

  test("huge logits do not overflow", () => {
    const out = makeSampledToken();
    sampleToken(
      Float32Array.of(3e38, -3e38, 0),
      { temperature: 1, topP: 0.9, seed: 1, topLogprobs: 1 },
      0,
      out,
    );
    expect(out.tokenId).toBe(0);
    expect(out.logprob).toBeCloseTo(0, 6);
  });
});

test("parameters out of range are named", () => {
  const check = (change: Partial<SamplingParameters>) => () =>
    checkSamplingParameters({ ...GREEDY, ...change });
  expect(check({})).not.toThrow();
  expect(check({ temperature: 100, topP: 0.001, topLogprobs: 20 })).not.toThrow();
  expect(check({ temperature: -1 })).toThrow(/temperature/);
  expect(check({ temperature: Number.NaN })).toThrow(/temperature/);
  expect(check({ topP: 0 })).toThrow(/top_p/);
  expect(check({ topP: 1.1 })).toThrow(/top_p/);
  expect(check({ seed: 0.5 })).toThrow(/seed/);
  expect(check({ topLogprobs: 21 })).toThrow(/top_logprobs/);
});

describe("logits hash", () => {
  const hashText = (logits: Float32Array): string => {
    const out = new Int32Array(4);
    logitsHash(logits, out, 2);
    return logitsHashText(out, 2);
  };

  test("any single flipped bit, swapped numbers and the sign of zero change it", () => {
    const seen = new Set([hashText(LOGITS)]);
    for (let bit = 0; bit < LOGITS.length * 32; bit++) {
      const changed = LOGITS.slice();
      const words = new Int32Array(changed.buffer);
      words[bit >> 5]! ^= 1 << (bit & 31);
      seen.add(hashText(changed));
    }
    expect(seen.size).toBe(1 + LOGITS.length * 32);
    expect(hashText(Float32Array.of(1, 2))).not.toBe(hashText(Float32Array.of(2, 1)));
    expect(hashText(Float32Array.of(0))).not.toBe(hashText(Float32Array.of(-0)));
    expect(hashText(Float32Array.of(0))).not.toBe(hashText(Float32Array.of(0, 0)));
  });

  test("a view hashes as its copy, as 16 hex digits", () => {
    const padded = new Float32Array(20);
    padded.set(LOGITS, 5);
    expect(hashText(padded.subarray(5, 13))).toBe(hashText(LOGITS));
    expect(hashText(LOGITS)).toMatch(/^[0-9a-f]{16}$/);
  });
});
