/**
 * Where the next batch of a load ends: at most `keysMax` keys, the rest in further batches. The one place that decides how a
 * load is cut.
 */
export function subBatchEnd(from: number, end: number, keysMax: number): number {
  return Math.min(end, from + keysMax);
}
