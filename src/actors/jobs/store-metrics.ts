import type { EngineChannel } from "../../store/engine.ts";
import {
  STORE_ERROR,
  STORE_OK,
  STORE_PARTIAL_FAILURE,
  type CounterBlock,
} from "../../trace/counters.ts";

/** Where an actor counts its engine batches and outcomes: its CounterBlock. Absent in tests and in the simulator. */
export type StoreMetrics = Pick<CounterBlock, "add" | "storeOperation">;

export function countBatch(
  metrics: StoreMetrics | undefined,
  engine: EngineChannel,
  batch: number,
  operation: number,
  failedKeys: number,
  bytes: number,
): void {
  if (metrics === undefined) return;
  const keys = engine.count(batch);
  const answered = failedKeys > 0 ? STORE_PARTIAL_FAILURE : STORE_OK;
  // As in vLLM, an error is a call without an answer; one whose keys all failed is not.
  const status = engine.status(batch) < 0 ? STORE_ERROR : answered;
  metrics.storeOperation(
    operation,
    status,
    keys,
    bytes,
    failedKeys,
    engine.microseconds(batch) / 1e6,
  );
}
