import type { PreparedModel } from "../serving/model/prepared-model.ts";

/** Blocks that fit in `bytes` of KV memory, but at least one request of full length and the null block. */
export function defaultBlockCount(model: PreparedModel, bytes: number): number {
  const least = Math.ceil(model.contextTokensMax / model.blockSize) + 1;
  return Math.max(least, Math.floor(bytes / model.blockBytes));
}
