import type { LlamaConfig } from "./llama-config.ts";

export interface RopeTables {
  /** [contextTokensMax, headSize / 2], row-major. */
  readonly cosine: Float32Array;
  readonly sine: Float32Array;
}

/**
 * Rotary angles of every position, computed in double precision and rounded once.
 *
 * A table (instead of Cos and Sin in the graph) gives the same bits whatever the position is computed with, and lets linear
 * scaling and the per-frequency factors of Llama 3.1 and later cost nothing at run time.
 */
export function ropeTables(config: LlamaConfig): RopeTables {
  const half = config.headSize / 2;
  const frequencies = new Float64Array(half);
  for (let index = 0; index < half; index++) {
    const factor = (config.ropeFrequencyFactors[index] ?? 1) * config.ropeLinearFactor;
    frequencies[index] = Math.pow(config.ropeTheta, -index / half) / factor;
  }
  const cosine = new Float32Array(config.contextTokensMax * half);
  const sine = new Float32Array(config.contextTokensMax * half);
  for (let position = 0, at = 0; position < config.contextTokensMax; position++) {
    for (let index = 0; index < half; index++, at++) {
      const angle = position * frequencies[index]!;
      cosine[at] = Math.cos(angle);
      sine[at] = Math.sin(angle);
    }
  }
  return { cosine, sine };
}
