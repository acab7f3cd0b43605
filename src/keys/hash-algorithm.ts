/**
 * The hash algorithms of vLLM's prefix cache: how a block's tuple becomes bytes, and how the bytes become a digest. A further
 * algorithm is one more entry here and in HASH_ALGORITHMS_SUPPORTED; nothing else knows about digests.
 */
import { createHash } from "node:crypto";
import { MooncakeKvError } from "../errors.ts";
import { HASH_ALGORITHMS_SUPPORTED } from "../config/kv-cache-config.ts";
import type { HashAlgorithmName } from "../config/kv-cache-config.ts";

export interface HashAlgorithm {
  readonly name: HashAlgorithmName;
  readonly digestBytes: number;
  /** How (parent, tokens, extra) is written before it is hashed. */
  readonly encoding: "cbor";
  /** Seed text of NONE_HASH when PYTHONHASHSEED is not set; null: random in every process, so nothing is shared. */
  readonly seedWhenUnset: string | null;
  /** Writes the digest of `bytes` to `into` at `offset`. */
  digestInto(bytes: Uint8Array, into: Uint8Array, offset: number): void;
}

const SHA256_CBOR: HashAlgorithm = {
  name: "sha256_cbor",
  digestBytes: 32,
  encoding: "cbor",
  seedWhenUnset: "vllm-none-hash",
  digestInto(bytes, into, offset) {
    into.set(createHash("sha256").update(bytes).digest(), offset);
  },
};

/** Throws UNSUPPORTED for an algorithm that this build does not have. */
export function hashAlgorithm(name: HashAlgorithmName): HashAlgorithm {
  if (name === "sha256_cbor") return SHA256_CBOR;
  throw new MooncakeKvError({
    code: "UNSUPPORTED",
    field: "hashAlgorithm",
    value: name,
    problem: "this build cannot hash with it",
    remedy: `Use one of ${HASH_ALGORITHMS_SUPPORTED.join(", ")}.`,
  });
}
