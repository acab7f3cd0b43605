import {
  COUNTER_FAMILIES,
  GAUGE_FAMILIES,
  HISTOGRAM_FAMILIES,
  STORE_STATUSES,
  seriesCount,
} from "./families.ts";
import type { MetricFamily } from "./families.ts";
import { MooncakeKvError } from "../errors.ts";

/**
 * Counters, gauges and histograms of actors, in shared memory.
 *
 * Each writing thread has a block of its own, whole cache lines long; all blocks have the same layout: one 64-bit float a
 * series. Readers add the blocks up. A float counts exactly up to 2^53. The words are aligned and the supported platforms
 * are 64-bit, so a write is one store and a reader sees the old or the new value, never a mixture. No order between two
 * counters is promised: a scrape is not a snapshot.
 */
const LINE_FLOATS = 8;

type CounterName = keyof typeof COUNTER_FAMILIES;
type GaugeName = keyof typeof GAUGE_FAMILIES;
type HistogramName = keyof typeof HISTOGRAM_FAMILIES;

interface Layout {
  readonly offsets: ReadonlyMap<MetricFamily, number>;
  readonly floats: number;
}

/** Floats of one series: a histogram has one for each bucket, one for what lies above them, and the sum. */
export function seriesFloats(family: MetricFamily): number {
  return family.kind === "histogram" ? family.buckets.length + 2 : 1;
}

function layOut(): Layout {
  const offsets = new Map<MetricFamily, number>();
  let floats = 0;
  for (const family of allFamilies()) {
    offsets.set(family, floats);
    floats += seriesCount(family) * seriesFloats(family);
  }
  return { offsets, floats: Math.ceil(floats / LINE_FLOATS) * LINE_FLOATS };
}

export function allFamilies(): MetricFamily[] {
  return [COUNTER_FAMILIES, GAUGE_FAMILIES, HISTOGRAM_FAMILIES].flatMap((group) =>
    Object.values<MetricFamily>(group),
  );
}

const LAYOUT = layOut();
const HISTOGRAMS: readonly MetricFamily[] = Object.values(HISTOGRAM_FAMILIES);
const HISTOGRAM_OFFSETS: readonly number[] = HISTOGRAMS.map(familyOffset);

/** Where a family's first series lies in a block. */
export function familyOffset(family: MetricFamily): number {
  return LAYOUT.offsets.get(family) ?? -1;
}

function offsetsOf<Name extends string>(
  group: Readonly<Record<Name, MetricFamily>>,
): Readonly<Record<Name, number>> {
  const entries = Object.entries<MetricFamily>(group).map(([name, family]) => [
    name,
    familyOffset(family),
  ]);
  return Object.fromEntries(entries) as Record<Name, number>;
}

/**
 * Series numbers for `add` and `set`. With one label the series is the sum of the family's number and the value's index:
 * `COUNTERS.lookups + OUTCOME_HIT`, `GAUGES.batchesInFlight + ACTOR_LOADER`.
 */
export const COUNTERS: Readonly<Record<CounterName, number>> = offsetsOf(COUNTER_FAMILIES);
export const GAUGES: Readonly<Record<GaugeName, number>> = offsetsOf(GAUGE_FAMILIES);

/** Histogram numbers for `observe`. */
export const HISTOGRAM_NUMBERS = Object.fromEntries(
  Object.keys(HISTOGRAM_FAMILIES).map((name, index) => [name, index]),
) as Readonly<Record<HistogramName, number>>;

/** Operations for `storeOperation`; index of the `operation` label. */
export const STORE_LOOKUP_EXISTS = 0;
export const STORE_SAVE_EXISTS = 1;
export const STORE_SAVE_PUT = 2;
export const STORE_LOAD_GET = 3;
/** Statuses for `storeOperation`; index of the `status` label. */
export const STORE_OK = 0;
export const STORE_PARTIAL_FAILURE = 1;
export const STORE_ERROR = 2;

/** Memory for the blocks of `writers` threads, zeroed. */
export function createCounterBuffer(writers: number): SharedArrayBuffer {
  return new SharedArrayBuffer(writers * LAYOUT.floats * 8);
}
export function counterWriters(buffer: SharedArrayBuffer): number {
  return buffer.byteLength / 8 / LAYOUT.floats;
}

/**
 * One thread's counters. Only the thread that owns block `writer` calls the changing methods; they cost some nanoseconds
 * and allocate nothing. The successor of a dead actor opens the same block: counters go on, gauges start at 0 again.
 */
export class CounterBlock {
  readonly #floats: Float64Array;

  constructor(buffer: SharedArrayBuffer, writer: number) {
    if (!Number.isInteger(writer) || writer < 0 || writer >= counterWriters(buffer)) {
      throw new MooncakeKvError({
        code: "INVALID_VALUE",
        field: "counter block writer",
        value: writer,
        problem: `must be a whole number from 0 to ${counterWriters(buffer) - 1}`,
        remedy: "Give createCounterBuffer the number of threads that write.",
      });
    }
    this.#floats = new Float64Array(buffer, writer * LAYOUT.floats * 8, LAYOUT.floats);
  }

  /** `series` is one of COUNTERS or GAUGES, plus the label's index. */
  add(series: number, amount: number): void {
    this.#floats[series]! += amount;
  }

  /** A gauge, or a counter that is counted elsewhere and only mirrored here. */
  set(series: number, value: number): void {
    this.#floats[series] = value;
  }

  value(series: number): number {
    return this.#floats[series] ?? Number.NaN;
  }

  /** `histogram` is one of HISTOGRAM_NUMBERS; `series` the index of its label combination. */
  observe(histogram: number, seconds: number, series = 0): void {
    const bounds = HISTOGRAMS[histogram]!.buckets;
    const at = HISTOGRAM_OFFSETS[histogram]! + series * (bounds.length + 2);
    let bucket = 0;
    while (bucket < bounds.length && seconds > bounds[bucket]!) bucket++;
    this.#floats[at + bucket]! += 1;
    this.#floats[at + bounds.length + 1]! += seconds;
  }

  /** One answered engine batch, as vLLM's store connector records it: all five families of one operation and status. */
  storeOperation(
    operation: number,
    status: number,
    keys: number,
    bytes: number,
    failedKeys: number,
    seconds: number,
  ): void {
    const series = operation * STORE_STATUSES.length + status;
    this.#floats[COUNTERS.storeOperations + series]! += 1;
    this.#floats[COUNTERS.storeKeys + series]! += keys;
    this.#floats[COUNTERS.storeBytes + series]! += bytes;
    this.#floats[COUNTERS.storeFailedKeys + series]! += failedKeys;
    this.observe(HISTOGRAM_NUMBERS.storeOperationTime, seconds, series);
  }

  /** For the successor of a dead actor: what the dead one had in hand is counted anew. */
  resetGauges(): void {
    for (const family of Object.values<MetricFamily>(GAUGE_FAMILIES)) {
      const first = familyOffset(family);
      this.#floats.fill(0, first, first + seriesCount(family));
    }
  }
}

/** Adds the blocks of all writers up. Any thread. */
export class CounterReader {
  readonly #floats: Float64Array;

  constructor(buffer: SharedArrayBuffer) {
    this.#floats = new Float64Array(buffer);
  }

  /** Sum over writers of float `offset` of the block layout. */
  sum(offset: number): number {
    let total = 0;
    for (let at = offset; at < this.#floats.length; at += LAYOUT.floats) total += this.#floats[at]!;
    return total;
  }
}
