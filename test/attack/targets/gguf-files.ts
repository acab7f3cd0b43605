/** Model files: header, configuration, tokenizer and tensors. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { llamaConfigOf, llamaWeightsOf } from "../../../src/serving/model/gguf-llama.ts";
import { GgufFile } from "../../../src/serving/model/gguf-reader.ts";
import { tokenizerFileOf } from "../../../src/serving/model/gguf-tokenizer.ts";
import { seededWeights } from "../../../src/serving/model/tiny-model.ts";
import { ggufBytes, llamaMetadata, llamaTensors } from "../../unit/model-gguf-builder.ts";
import type { Attempt, Target } from "../attack.ts";
import { mutateBytes } from "../mutate.ts";

const CONFIG = {
  vocabularySize: 4,
  hiddenSize: 8,
  layerCount: 1,
  queryHeadCount: 2,
  kvHeadCount: 1,
  headSize: 4,
  feedForwardSize: 8,
  contextTokensMax: 64,
  normEpsilon: 1e-5,
  ropeTheta: 10_000,
  ropeLinearFactor: 1,
  ropeFrequencyFactors: [],
  tiedEmbedding: false,
};
const CONTROLS = ["<|im_start|>", "<|im_end|>"];

export const GGUF_FILES: Target = {
  name: "GGUF files",
  open: () => {
    const folder = mkdtempSync(join(tmpdir(), "attack-gguf-"));
    const path = join(folder, "model.gguf");
    const good = ggufBytes({
      metadata: llamaMetadata(CONFIG, ["a", "b", ...CONTROLS], new Set(CONTROLS)),
      tensors: llamaTensors(CONFIG, seededWeights(CONFIG, 1)),
    });
    // Wrong numbers in weights are weights: what is read as structure lies before them.
    const weights = good.length - CONFIG.hiddenSize * CONFIG.feedForwardSize * 16;
    const read = (bytes: Uint8Array): void => {
      writeFileSync(path, bytes);
      const file = new GgufFile(path);
      try {
        const config = llamaConfigOf(file);
        tokenizerFileOf(file, config.vocabularySize);
        llamaWeightsOf(file, config);
        for (const name of file.tensors.keys()) file.readTensor(name);
      } finally {
        file.close();
      }
    };
    return {
      try: (random): Attempt => {
        const head = mutateBytes(good.subarray(0, weights), random);
        const bytes = random.below(4) === 0 ? head : Buffer.concat([head, good.subarray(weights)]);
        return { input: bytes.toString("latin1"), bytes: bytes.length, run: () => read(bytes) };
      },
      heal: () => read(good),
      close: () => rmSync(folder, { recursive: true, force: true }),
    };
  },
};
