import { MooncakeKvError } from "../errors.ts";
import type { PreparedModel } from "../serving/model/prepared-model.ts";

/** Blocks that fit in `bytes` of KV memory, but at least one request of full length and the null block. */
export function defaultBlockCount(model: PreparedModel, bytes: number): number {
  return Math.max(leastBlocks(model), Math.floor(bytes / model.blockBytes));
}

/** Blocks that fit in what the user gave. Throws CAPACITY when one request of full length does not fit. */
export function givenBlockCount(model: PreparedModel, bytes: number, option: string): number {
  const [blocks, least] = [Math.floor(bytes / model.blockBytes), leastBlocks(model)];
  if (blocks >= least) return blocks;
  throw new MooncakeKvError({
    code: "CAPACITY",
    field: option,
    value: bytes,
    problem: `one request of ${model.contextTokensMax} tokens needs ${least * model.blockBytes} bytes`,
    remedy: `Give ${option} at least that, or a shorter context with --context-tokens-max.`,
  });
}

function leastBlocks(model: PreparedModel): number {
  return Math.ceil(model.contextTokensMax / model.blockSize) + 1;
}
