/** The golden files of block hashes, and the requests that their cases stand for. */
import { embedsOf } from "./prompt-embeds.ts";
import { readVectors } from "./vectors.ts";
import type { HashAlgorithmName } from "../../src/config/kv-cache-config.ts";
import type { HashRequest } from "../../src/keys/block-extra.ts";

export const ALGORITHMS: readonly HashAlgorithmName[] = [
  "sha256",
  "sha256_cbor",
  "xxhash",
  "xxhash_cbor",
];

/** The fields of a request that hash_inputs.json and the hash files share. */
export interface HashedRequest {
  variant: string;
  seed: string | null;
  block_size: number;
  lookahead: number;
  cache_salt?: string;
  lora?: { name: string; path: string };
  mm?: { identifier: string; offset: number; length: number }[];
  prompt_embeds?: { shape: [number, number]; dtype: string };
  prompt_is_token_ids?: boolean[];
  token_ids?: number[] | null;
}
export interface HashCase extends HashedRequest {
  none_hash: string;
  sequence: string | null;
  hashes: string[];
}
export interface HashFile {
  sequences: Record<string, number[]>;
  cases: HashCase[];
}
export interface HashInputCase extends HashedRequest {
  algo: HashAlgorithmName;
  block: number;
  input: string;
  hash: string;
}
export interface NoneHashFile {
  cases: { algo: HashAlgorithmName; seed: string | null; none_hash: string }[];
}

export function readHashFile(algorithm: HashAlgorithmName): HashFile {
  return readVectors<HashFile>(`hashes_${algorithm}`);
}

export function requestOf(one: HashedRequest, sequence: readonly number[] | null): HashRequest {
  const embeds = one.prompt_embeds;
  const given = sequence ?? one.token_ids;
  const tokens = given ?? Array.from({ length: embeds?.shape[0] ?? 0 }, () => 0);
  const flags = one.prompt_is_token_ids;
  return {
    tokens:
      flags === undefined
        ? tokens
        : tokens.map((token, index) => (flags[index] === true ? token : 0)),
    blockSize: one.block_size,
    lookaheadTokens: one.lookahead,
    lora: one.lora ?? null,
    multiModal: one.mm ?? [],
    cacheSalt: one.cache_salt ?? null,
    promptEmbeds: embeds === undefined ? null : embedsOf(embeds.shape, embeds.dtype),
  };
}

export function sequenceOf(file: HashFile, one: HashCase): readonly number[] | null {
  return one.sequence === null ? null : (file.sequences[one.sequence] ?? null);
}
