import { stagingBytes } from "../../store/disk-split.ts";
import type { StagingBudget } from "../../store/disk-split.ts";

/**
 * Where the next batch of a load ends: at most `keysMax` keys, and no more than fit the staging buffer of a disk tier, if there is
 * one (`splitForStaging`, key by key). The rest goes in further batches. `bytesAt`: bytes of the value at a position.
 */
export function subBatchEnd(
  from: number,
  end: number,
  keysMax: number,
  staging: StagingBudget | null,
  bytesAt: (position: number) => number,
): number {
  const most = Math.min(end, from + keysMax);
  if (staging === null) return most;
  let bytes = 0;
  for (let position = from; position < most; position++) {
    bytes += stagingBytes(bytesAt(position));
    // A value above the usable share goes alone.
    if (bytes > staging.usableBytes) return Math.max(from + 1, position);
  }
  return most;
}

/** Values of these sizes can be staged at all. */
export function fitsStaging(bytesOfValues: readonly number[], staging: StagingBudget): boolean {
  return bytesOfValues.every((bytes) => stagingBytes(bytes) <= staging.rawBytes);
}
