import { IDENTITY_KEY_ENDING } from "../../../src/connector/identity/identity.ts";
import type { Application } from "../../../src/serving/application.ts";
import type { FrontEndRequest } from "../../../src/serving/front-end-types.ts";
import { generate } from "./generate.ts";
import { settled } from "./gauges.ts";

const KEYS_MAX = 100_000;

/** Keys of blocks: without what members publish about themselves. */
export function poolKeys({ runtime }: Application): string[] {
  return runtime.native
    .engineKeys(runtime.engineId, "", KEYS_MAX)
    .filter((key) => !key.endsWith(IDENTITY_KEY_ENDING));
}

/** Removes every value of the pool; nothing may be in flight. */
export function clearPool({ runtime }: Application): void {
  runtime.native.engineRemovePrefix(runtime.engineId, "");
}

/** Flips one bit of a stored value; false when there is no such value. */
export function flipBit({ runtime }: Application, key: string, byteOffset: number): boolean {
  return runtime.native.engineCorrupt(runtime.engineId, key, byteOffset);
}

/** Computes and saves the first `blocks` blocks of a prompt (those that are new to the pool), and returns their keys. */
export async function warm(
  application: Application,
  prompt: Int32Array,
  blocks: number,
  request: Partial<FrontEndRequest> = {},
): Promise<string[]> {
  const before = new Set(poolKeys(application));
  const { blockSize } = application.runtime.ends.tables.dimensions;
  const tokens = prompt.slice(0, blocks * blockSize);
  await generate(application, tokens, { maxTokens: 1, ...request });
  await settled(application);
  return poolKeys(application).filter((key) => !before.has(key));
}

/** Drops the local prefix cache when all is settled, so that the pool alone can help. */
export async function dropLocalCache(application: Application): Promise<number> {
  await settled(application);
  return await application.frontEnd.dropLocalCache();
}
