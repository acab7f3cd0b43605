/**
 * Block hashes: H((parent, tokens, extra)) per hash block, chained over the whole prefix and equal to vLLM's. This is the
 * TypeScript twin of the addon's hashing: the reference of the tests, and good enough for small prompts.
 */
import type { HashAlgorithmName } from "../config/kv-cache-config.ts";
import { MooncakeKvError } from "../errors.ts";
import { encodeExtra, hashableBlocks } from "./block-extra.ts";
import type { HashRequest } from "./block-extra.ts";
import { hashAlgorithm, openWriter } from "./hash-algorithm.ts";
import type { HashAlgorithm } from "./hash-algorithm.ts";
import type { ValueWriter } from "./value-writer.ts";

/** Hashes one block at a time into memory of the caller. Not for use by two threads at once. */
export class BlockHasher {
  readonly algorithm: HashAlgorithm;
  readonly #writer: ValueWriter;

  constructor(name: HashAlgorithmName) {
    this.algorithm = hashAlgorithm(name);
    this.#writer = openWriter(this.algorithm.encoding, 4096);
  }

  /**
   * Hashes tokens [from, to) after `parent` and writes `algorithm.digestBytes` bytes to `into` at `offset`, which may be
   * `parent` itself. `extra` is the encoded extra element, or null. With `lookaheadTokens` L, tokens [to, to + L) are hashed
   * too, as (extra, t1..tL) in place of the extra element. Throws INVALID_VALUE for a token that is no integer.
   */
  hashBlock(
    parent: Uint8Array,
    tokens: ArrayLike<number>,
    from: number,
    to: number,
    extra: Uint8Array | null,
    into: Uint8Array,
    offset: number,
    lookaheadTokens = 0,
  ): void {
    this.#writeBlock(parent, tokens, from, to, extra, lookaheadTokens);
    this.algorithm.digestInto(this.#writer.message(), into, offset);
  }

  /** The bytes that `hashBlock` hashes, as the caller's own copy: for comparing with vLLM's. */
  message(
    parent: Uint8Array,
    tokens: ArrayLike<number>,
    from: number,
    to: number,
    extra: Uint8Array | null,
    lookaheadTokens = 0,
  ): Uint8Array {
    this.#writeBlock(parent, tokens, from, to, extra, lookaheadTokens);
    return this.#writer.message().slice();
  }

  #writeBlock(
    parent: Uint8Array,
    tokens: ArrayLike<number>,
    from: number,
    to: number,
    extra: Uint8Array | null,
    lookaheadTokens: number,
  ): void {
    const writer = this.#writer;
    writer.reset();
    writer.array(3);
    writer.bytes(parent);
    writer.array(to - from);
    this.#writeTokens(tokens, from, to);
    writer.endArray(to - from);
    if (lookaheadTokens > 0) writer.array(1 + lookaheadTokens);
    if (extra === null) writer.null();
    else writer.raw(extra);
    if (lookaheadTokens > 0) {
      this.#writeTokens(tokens, to, to + lookaheadTokens);
      writer.endArray(1 + lookaheadTokens);
    }
    writer.endArray(3);
  }

  #writeTokens(tokens: ArrayLike<number>, from: number, to: number): void {
    for (let position = from; position < to; position++)
      this.#writer.integer(tokens[position] ?? Number.NaN);
  }
}

/**
 * Digests of all blocks of the request that can be hashed, back to back. `noneHashBytes` is the parent of block 0.
 *
 * Throws INVALID_VALUE for a parent of the wrong length or a block size that is no whole number above 0.
 */
export function hashBlocks(
  request: HashRequest,
  noneHashBytes: Uint8Array,
  name: HashAlgorithmName,
): Uint8Array {
  const hasher = new BlockHasher(name);
  const { digestBytes } = hasher.algorithm;
  const { tokens, blockSize } = request;
  // The xxhash variants draw 32 bytes when there is no seed.
  const drawn = hasher.algorithm.seedWhenUnset === null && noneHashBytes.length === 32;
  if (noneHashBytes.length !== digestBytes && !drawn) {
    throw invalid(
      "noneHash",
      noneHashBytes.length,
      `must have ${digestBytes} bytes`,
      "Make it with noneHash().",
    );
  }
  if (!Number.isInteger(blockSize) || blockSize <= 0) {
    throw invalid(
      "blockSize",
      blockSize,
      "must be a whole number above 0",
      "Give the hash block size.",
    );
  }
  const blocks = hashableBlocks(request);
  const digests = new Uint8Array(blocks * digestBytes);
  let parent = noneHashBytes;
  for (let block = 0; block < blocks; block++) {
    const offset = block * digestBytes;
    const from = block * blockSize;
    hasher.hashBlock(
      parent,
      tokens,
      from,
      from + blockSize,
      encodeExtra(block, request, hasher.algorithm.encoding),
      digests,
      offset,
      request.lookaheadTokens ?? 0,
    );
    parent = digests.subarray(offset, offset + digestBytes);
  }
  return digests;
}

/** The digest of block `index` in lower-case hex, as it stands in pool keys. */
export function hashHex(digests: Uint8Array, index: number, digestBytes: number): string {
  const offset = index * digestBytes;
  return Buffer.from(digests.buffer, digests.byteOffset + offset, digestBytes).toString("hex");
}

function invalid(field: string, value: unknown, problem: string, remedy: string): MooncakeKvError {
  return new MooncakeKvError({ code: "INVALID_VALUE", field, value, problem, remedy });
}
