import type { ActorContext } from "../../../src/actors/step.ts";
import { NONE } from "../../../src/blocks/layout.ts";
import type { Tables } from "../../../src/blocks/tables.ts";
import { BlockHasher } from "../../../src/keys/block-hash.ts";
import { noneHash } from "../../../src/keys/none-hash.ts";
import type { RunPlan } from "./workload.ts";

/** PYTHONHASHSEED of all members: the xxhash variants have no fixed one. */
export const HASH_SEED = "7";

/** The addon's block hashing, by its TypeScript twin, over the same page chains. */
export function simulatedHashing(
  tables: Tables,
  plan: Pick<RunPlan, "hashAlgorithm" | "hashBlockSize" | "hashLookaheadTokens">,
): ActorContext["hashBlocks"] {
  const { hashAlgorithm, hashBlockSize, hashLookaheadTokens } = plan;
  const hasher = new BlockHasher(hashAlgorithm);
  const none = noneHash(HASH_SEED, hashAlgorithm);
  const digest = new Uint8Array(hasher.algorithm.digestBytes);
  const tokens = new Int32Array(hashBlockSize + hashLookaheadTokens);
  const digestAt = (offset: number): Uint8Array =>
    new Uint8Array(tables.hashes.words.buffer, offset * 4, digest.length);
  return (tokenPage, hashPage, extrasPage, fromBlock, toBlock) => {
    const extras = extraElements(tables, extrasPage, toBlock);
    for (let block = fromBlock; block < toBlock; block++) {
      for (let index = 0; index < tokens.length; index++)
        tokens[index] = tables.tokens.get(tokenPage, block * hashBlockSize + index);
      const parent =
        block === 0 ? none : digestAt(tables.hashes.offset(hashPage, block - 1)).slice();
      const extra = extras[block] ?? null;
      hasher.hashBlock(parent, tokens, 0, hashBlockSize, extra, digest, 0, hashLookaheadTokens);
      digestAt(tables.hashes.offset(hashPage, block)).set(digest);
    }
    return toBlock - fromBlock;
  };
}

/** Extra elements of the leading blocks out of the stream in the token arena. */
function extraElements(
  tables: Tables,
  extrasPage: number,
  blocks: number,
): readonly (Uint8Array | null)[] {
  if (extrasPage === NONE) return [];
  const elements: (Uint8Array | null)[] = [];
  for (let word = 0; elements.length < blocks;) {
    const byteLength = tables.tokens.get(extrasPage, word++);
    const words = Int32Array.from({ length: Math.ceil(byteLength / 4) }, (_, index) =>
      tables.tokens.get(extrasPage, word + index),
    );
    word += words.length;
    elements.push(byteLength === 0 ? null : new Uint8Array(words.buffer, 0, byteLength));
  }
  return elements;
}
