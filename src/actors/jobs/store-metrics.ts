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
  const partial = failedKeys > 0 ? STORE_PARTIAL_FAILURE : STORE_OK;
  const status = failedKeys > 0 && failedKeys >= keys ? STORE_ERROR : partial;
  metrics.storeOperation(
    operation,
    status,
    keys,
    bytes,
    failedKeys,
    engine.microseconds(batch) / 1e6,
  );
}
