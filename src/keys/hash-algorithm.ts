/**
 * The hash algorithms of vLLM's prefix cache: how a block's tuple becomes bytes, and how the bytes become a digest. Nothing else
 * knows about encodings and digests.
 */
import { createHash } from "node:crypto";
import { MooncakeKvError } from "../errors.ts";
import { HASH_ALGORITHMS, HASH_ALGORITHMS_SUPPORTED } from "../config/kv-cache-config.ts";
import type { BlockEncoding } from "../blocks/hashing.ts";
import type { HashAlgorithmName } from "../config/kv-cache-config.ts";
import { CborWriter } from "./cbor-writer.ts";
import { PickleWriter } from "./pickle-writer.ts";
import type { ValueWriter } from "./value-writer.ts";
import { xxh3Digest } from "./xxh3.ts";

export interface HashAlgorithm {
  readonly name: HashAlgorithmName;
  readonly digestBytes: number;
  /** How (parent, tokens, extra) is written before it is hashed. */
  readonly encoding: BlockEncoding;
  /** Seed text of NONE_HASH when PYTHONHASHSEED is not set; null: random in every process, so nothing is shared. */
  readonly seedWhenUnset: string | null;
  /** Writes the digest of `bytes` to `into` at `offset`. */
  digestInto(bytes: Uint8Array, into: Uint8Array, offset: number): void;
}

const sha256 = {
  seedWhenUnset: "vllm-none-hash",
  digestInto(bytes: Uint8Array, into: Uint8Array, offset: number): void {
    into.set(createHash("sha256").update(bytes).digest(), offset);
  },
};
const xxhash = { seedWhenUnset: null, digestInto: xxh3Digest };

const ALGORITHMS: { readonly [name in HashAlgorithmName]: HashAlgorithm } = {
  sha256: { name: "sha256", ...HASH_ALGORITHMS.sha256, ...sha256 },
  sha256_cbor: { name: "sha256_cbor", ...HASH_ALGORITHMS.sha256_cbor, ...sha256 },
  xxhash: { name: "xxhash", ...HASH_ALGORITHMS.xxhash, ...xxhash },
  xxhash_cbor: { name: "xxhash_cbor", ...HASH_ALGORITHMS.xxhash_cbor, ...xxhash },
};

/** Throws UNSUPPORTED for a name that is none. */
export function hashAlgorithm(name: HashAlgorithmName): HashAlgorithm {
  if (Object.hasOwn(ALGORITHMS, name)) return ALGORITHMS[name];
  throw new MooncakeKvError({
    code: "UNSUPPORTED",
    field: "hashAlgorithm",
    value: name,
    problem: "this build cannot hash with it",
    remedy: `Use one of ${HASH_ALGORITHMS_SUPPORTED.join(", ")}.`,
  });
}

export function openWriter(encoding: BlockEncoding, initialBytes: number): ValueWriter {
  return encoding === "cbor" ? new CborWriter(initialBytes) : new PickleWriter(initialBytes);
}
