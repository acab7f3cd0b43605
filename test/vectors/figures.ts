/** vLLM's records of store operations, and what an actor counts of its own. */
import type { StoreMetrics } from "../../src/actors/jobs/store-metrics.ts";
import { STORE_STATUSES } from "../../src/trace/families.ts";
import type { FileStats } from "./runner/worker-bench.ts";

interface Figure {
  readonly keys: number;
  readonly bytes: number;
  readonly status: string;
  readonly failed: number;
}
/** By operation. */
type Figures = Record<string, Figure[]>;

/** As `storeOperation` numbers them. */
const OPERATIONS = ["lookup_exists", "save_exists", "save_put", "load_get"];

export class FigureNotes implements StoreMetrics {
  #noted: Figures = {};

  get noted(): Figures {
    return this.#noted;
  }
  clear(): void {
    this.#noted = {};
  }

  add(): void {
    // Other counters are no part of the traces.
  }
  storeOperation(
    operation: number,
    status: number,
    keys: number,
    bytes: number,
    failed: number,
  ): void {
    const records = (this.#noted[OPERATIONS[operation] ?? ""] ??= []);
    records.push({ keys, bytes, status: STORE_STATUSES[status] ?? "", failed });
  }
}

export function figuresOf(stats: FileStats): Figures {
  return Object.fromEntries(
    Object.entries(stats).map(([name, records]) => [
      name,
      records.map((each) => ({
        keys: each.num_keys,
        bytes: each.num_bytes,
        status: each.status,
        failed: each.num_failed_keys,
      })),
    ]),
  );
}
