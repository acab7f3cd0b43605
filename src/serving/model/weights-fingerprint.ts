import { createHash } from "node:crypto";
import type { LlamaConfig } from "./llama-config.ts";
import type { WeightSink } from "./llama-graph.ts";

/**
 * Digests everything that decides which KV bytes a token sequence gives: the configuration (save the context limit, which only
 * ends sequences) and every weight in the order in which the graph is built. Block size and quantization are not in it.
 */
export class WeightsFingerprint {
  private readonly hash = createHash("sha256");

  constructor(config: LlamaConfig) {
    const { contextTokensMax: _limit, ...deciding } = config;
    this.hash.update(JSON.stringify(deciding, Object.keys(deciding).toSorted()));
  }

  /** Wraps a sink so that every weight passes through the digest. */
  through(sink: WeightSink): WeightSink {
    return (name, bytes) => {
      // The rotary tables follow from the configuration; their length is the context limit's.
      if (!name.startsWith("rope_")) this.hash.update(name).update(bytes);
      return sink(name, bytes);
    };
  }

  /** sha256 as lower-case hex; call it once, after the last weight. */
  finish(): string {
    return this.hash.digest("hex");
  }
}
