import { ENTRY_GROUP, ENTRY_WORDS } from "../../blocks/layout.ts";
import type { EngineChannel } from "../../store/engine.ts";
import type { WorkerKeySpace } from "../../store/key-spaces.ts";
import {
  STORE_ERROR,
  STORE_OK,
  STORE_PARTIAL_FAILURE,
  type CounterBlock,
} from "../../trace/counters.ts";

/** Where an actor counts its engine batches and outcomes: its CounterBlock. Absent in tests and in the simulator. */
export type StoreMetrics = Pick<CounterBlock, "add" | "storeOperation">;

/**
 * Counts an answered batch of puts or gets of `worker`. As in vLLM its bytes are those of all values asked for, moved or not. Call
 * before the slot is filled anew.
 */
export function countValues(
  metrics: StoreMetrics | undefined,
  engine: EngineChannel,
  batch: number,
  operation: number,
  failedKeys: number,
  worker: Pick<WorkerKeySpace, "bytesOfValue">,
): void {
  if (metrics === undefined) return;
  const keys = engine.count(batch);
  const answered = failedKeys > 0 ? STORE_PARTIAL_FAILURE : STORE_OK;
  // As in vLLM, an error is a call without an answer; one whose keys all failed is not.
  const status = engine.status(batch) < 0 ? STORE_ERROR : answered;
  const entries = engine.entries(batch);
  let bytes = 0;
  for (let key = 0; key < keys; key++)
    bytes += worker.bytesOfValue[entries[key * ENTRY_WORDS + ENTRY_GROUP]!]!;
  metrics.storeOperation(operation, status, keys, bytes, failedKeys, seconds(engine, batch));
}

/** Counts an answered exists batch. As in vLLM it was answered, whatever it says of single keys, or it failed with all keys. */
export function countExists(
  metrics: StoreMetrics | undefined,
  engine: EngineChannel,
  batch: number,
  operation: number,
): void {
  if (metrics === undefined) return;
  const keys = engine.count(batch);
  const fails = engine.status(batch) < 0;
  const status = fails ? STORE_ERROR : STORE_OK;
  metrics.storeOperation(operation, status, keys, 0, fails ? keys : 0, seconds(engine, batch));
}

function seconds(engine: EngineChannel, batch: number): number {
  return engine.microseconds(batch) / 1e6;
}
