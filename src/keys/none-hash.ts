/**
 * NONE_HASH, the parent of every first block. All processes that share a pool must have the same one; it follows from the text
 * of PYTHONHASHSEED alone, or from a fixed text when the variable is not set. Only the xxhash variants have no such text.
 */
import type { HashAlgorithmName } from "../config/kv-cache-config.ts";
import { MooncakeKvError } from "../errors.ts";
import { hashAlgorithm, openWriter } from "./hash-algorithm.ts";

/** As many as vLLM draws; digests of the xxhash variants have 16. */
const RANDOM_BYTES = 32;

/**
 * `seed`: the value of PYTHONHASHSEED, null when it is not set (the empty text is a value). "random" is just a text.
 *
 * `randomBytes` is asked when `noneHashIsRandom`: the result then has 32 bytes and no other process has it. Without it such a
 * call throws MISSING.
 */
export function noneHash(
  seed: string | null,
  algorithmName: HashAlgorithmName,
  randomBytes?: (count: number) => Uint8Array,
): Uint8Array {
  const algorithm = hashAlgorithm(algorithmName);
  const text = seed ?? algorithm.seedWhenUnset;
  if (text === null) {
    if (randomBytes !== undefined) return randomBytes(RANDOM_BYTES);
    throw new MooncakeKvError({
      code: "MISSING",
      field: "PYTHONHASHSEED",
      problem: `is not set, and ${algorithmName} has no fixed seed`,
      remedy: "Set it to the same value in every process that shares the pool.",
    });
  }
  const writer = openWriter(algorithm.encoding, 64);
  writer.text(text);
  const digest = new Uint8Array(algorithm.digestBytes);
  algorithm.digestInto(writer.message(), digest, 0);
  return digest;
}

/** vLLM draws NONE_HASH anew in every process: no block is ever shared. Worth a warning. */
export function noneHashIsRandom(seed: string | null, algorithmName: HashAlgorithmName): boolean {
  return seed === null && hashAlgorithm(algorithmName).seedWhenUnset === null;
}
