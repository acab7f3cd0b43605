import type { ActorContext } from "../../../src/actors/step.ts";
import { HASH_STRIDE_WORDS } from "../../../src/blocks/layout.ts";
import type { Tables } from "../../../src/blocks/tables.ts";
import { BlockHasher } from "../../../src/keys/block-hash.ts";
import { noneHash } from "../../../src/keys/none-hash.ts";

/** The addon's block hashing, by its TypeScript twin, over the same page chains. No extra keys in simulated runs. */
export function simulatedHashing(tables: Tables, blockSize: number): ActorContext["hashBlocks"] {
  const hasher = new BlockHasher("sha256_cbor");
  const none = noneHash(null, "sha256_cbor");
  const digest = new Uint8Array(HASH_STRIDE_WORDS * 4);
  const tokens = new Int32Array(blockSize);
  const digestAt = (offset: number): Uint8Array =>
    new Uint8Array(tables.hashes.words.buffer, offset * 4, HASH_STRIDE_WORDS * 4);
  return (tokenPage, hashPage, _extrasPage, fromBlock, toBlock) => {
    for (let block = fromBlock; block < toBlock; block++) {
      for (let index = 0; index < blockSize; index++) {
        tokens[index] = tables.tokens.get(tokenPage, block * blockSize + index);
      }
      const parent = block === 0 ? none : digestAt(tables.hashes.offset(hashPage, block - 1)).slice();
      hasher.hashBlock(parent, tokens, 0, blockSize, null, digest, 0);
      digestAt(tables.hashes.offset(hashPage, block)).set(digest);
    }
    return toBlock - fromBlock;
  };
}
