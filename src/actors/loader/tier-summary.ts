import { TIER_DISK, TIER_MEMORY, TIER_UNKNOWN } from "../../blocks/layout.ts";
import { COUNTERS } from "../../trace/counters.ts";
import type { StoreMetrics } from "../jobs/store-metrics.ts";
import { TIER_LABELS } from "../../trace/families.ts";
import type { Log } from "../step.ts";

/** From which tier of the pool the keys of one batch came; used again for each batch. Numbers by TIER_. */
export class TierSummary {
  readonly keys = new Float64Array(TIER_LABELS.length);
  readonly bytes = new Float64Array(TIER_LABELS.length);
  #failedKeys = 0;

  clear(): void {
    this.keys.fill(0);
    this.bytes.fill(0);
    this.#failedKeys = 0;
  }

  /** `code`: bytes, or below 0 for a key that did not arrive. */
  add(tier: number, code: number): void {
    const known = tier === TIER_MEMORY || tier === TIER_DISK ? tier : TIER_UNKNOWN;
    this.keys[known]!++;
    if (code >= 0) this.bytes[known]! += code;
    else this.#failedKeys++;
  }

  count(metrics: StoreMetrics | undefined): void {
    if (metrics === undefined) return;
    for (let tier = 0; tier < TIER_LABELS.length; tier++) {
      metrics.add(COUNTERS.loadedKeys + tier, this.keys[tier]!);
      metrics.add(COUNTERS.loadedBytes + tier, this.bytes[tier]!);
    }
  }

  /** vLLM's line of VLLM_MOONCAKE_STORE_TIER_LOG, as fields. */
  write(log: Log | undefined, slot: number, generation: number): void {
    const [unknownKeys = 0, memoryKeys = 0, diskKeys = 0] = this.keys;
    const [unknown = 0, memory = 0, disk = 0] = this.bytes;
    const batchKeys = unknownKeys + memoryKeys + diskKeys;
    log?.info(
      {
        slot,
        generation,
        batchKeys,
        memoryKeys,
        diskKeys,
        unknownKeys,
        successKeys: batchKeys - this.#failedKeys,
        failedKeys: this.#failedKeys,
        bytesByTier: { memory, disk, unknown },
      },
      "Mooncake load tier summary",
    );
  }
}
