/** Block hashes and NONE_HASH of all four algorithms, and the very bytes that are hashed. */
import { encodeExtra } from "../../../../src/keys/block-extra.ts";
import { BlockHasher, hashBlocks, hashHex } from "../../../../src/keys/block-hash.ts";
import { hashAlgorithm } from "../../../../src/keys/hash-algorithm.ts";
import { noneHash, noneHashIsRandom } from "../../../../src/keys/none-hash.ts";
import { ALGORITHMS, requestOf, sequenceOf } from "../../hash-cases.ts";
import type { HashFile, HashInputCase, NoneHashFile } from "../../hash-cases.ts";
import { Cases } from "../cases.ts";
import type { VectorKind } from "../cases.ts";

export const noneHashes: VectorKind = {
  name: "none_hash",
  run(contents) {
    const report = new Cases();
    for (const one of (contents as NoneHashFile).cases) {
      report.run(`${one.algo} ${one.seed}`, (check) => {
        const drawn = one.none_hash === "random";
        check.equal("is drawn", noneHashIsRandom(one.seed, one.algo), drawn);
        if (!drawn) check.equal("NONE_HASH", hex(noneHash(one.seed, one.algo)), one.none_hash);
      });
    }
    return report;
  },
};

export const hashKinds: readonly VectorKind[] = ALGORITHMS.map((algorithm) => ({
  name: `hashes_${algorithm}`,
  run(contents) {
    const file = contents as HashFile;
    const report = new Cases();
    const { digestBytes } = hashAlgorithm(algorithm);
    file.cases.forEach((one, index) =>
      report.run(
        `${index} ${one.variant} block ${one.block_size} ahead ${one.lookahead}`,
        (check) => {
          const request = requestOf(one, sequenceOf(file, one));
          const digests = hashBlocks(request, Buffer.from(one.none_hash, "hex"), algorithm);
          const ours = Array.from({ length: digests.length / digestBytes }, (_, block) =>
            hashHex(digests, block, digestBytes),
          );
          check.equal("hashes", ours, one.hashes);
        },
      ),
    );
    return report;
  },
}));

export const hashInputs: VectorKind = {
  name: "hash_inputs",
  run(contents) {
    const report = new Cases();
    for (const one of (contents as { cases: HashInputCase[] }).cases) {
      report.run(`${one.algo} ${one.variant} block ${one.block}`, (check) => {
        const request = requestOf(one, null);
        const hasher = new BlockHasher(one.algo);
        const { encoding, digestBytes } = hasher.algorithm;
        const root = noneHash(one.seed, one.algo);
        const digests = hashBlocks(request, root, one.algo);
        check.equal("hash", hashHex(digests, one.block, digestBytes), one.hash);
        const at = one.block * digestBytes;
        const parent = one.block === 0 ? root : digests.subarray(at - digestBytes, at);
        const from = one.block * one.block_size;
        const extra = encodeExtra(one.block, request, encoding);
        const to = from + one.block_size;
        const input = hasher.message(parent, request.tokens, from, to, extra, one.lookahead);
        check.equal("input", hex(input), one.input);
      });
    }
    return report;
  },
};

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
