/**
 * NONE_HASH, the parent of every first block. All processes that share a pool must have the same one; it follows from the text
 * of PYTHONHASHSEED alone, or from a fixed text when the variable is not set.
 */
import type { HashAlgorithmName } from "../config/kv-cache-config.ts";
import { MooncakeKvError } from "../errors.ts";
import { CborWriter } from "./cbor-writer.ts";
import { hashAlgorithm } from "./hash-algorithm.ts";

/** `seed`: the value of PYTHONHASHSEED, null when it is not set (the empty text is a value). "random" is just a text. */
export function noneHash(
  seed: string | null,
  algorithmName: HashAlgorithmName = "sha256_cbor",
): Uint8Array {
  const algorithm = hashAlgorithm(algorithmName);
  const text = seed ?? algorithm.seedWhenUnset;
  if (text === null) {
    throw new MooncakeKvError({
      code: "MISSING",
      field: "PYTHONHASHSEED",
      problem: `is not set, and ${algorithmName} has no fixed seed`,
      remedy: "Set it to the same value in every process that shares the pool.",
    });
  }
  const writer = new CborWriter(64);
  writer.text(text);
  const digest = new Uint8Array(algorithm.digestBytes);
  algorithm.digestInto(writer.view(), digest, 0);
  return digest;
}
