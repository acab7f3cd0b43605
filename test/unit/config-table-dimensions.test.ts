/**
 * Goal: the shared tables count in the chunks that pool keys name, whatever the ranks; what they cannot express is refused.
 * Method: KV caches with decode-context ranks, several groups and finer hash blocks; spans computed by hand.
 */
import { describe, expect, it } from "vitest";
import type { KvCacheConfigInput } from "../../src/config/kv-cache-config.ts";
import { normalizeKvCacheConfig } from "../../src/config/kv-cache-normalize.ts";
import { tableDimensions } from "../../src/config/table-dimensions.ts";
import { MooncakeKvError } from "../../src/errors.ts";

const PLAIN: KvCacheConfigInput = {
  modelName: "org/model",
  dtype: "float16",
  blockSize: 16,
  groups: [{ kind: "full", layers: 2 }],
  heads: { kvHeads: 8, headSize: 16 },
  blockCount: 64,
};
const SIZES = {
  requestSlots: 8,
  jobSlots: 32,
  tokensPerRequestMax: 256,
  tokensMax: 1024,
  stepSequencesMax: 0,
};
const dimensionsOf = (input: Partial<KvCacheConfigInput>) =>
  tableDimensions(normalizeKvCacheConfig({ ...PLAIN, ...input }), SIZES);

describe("tableDimensions", () => {
  it("takes a block of one rank as a chunk when the context is not cut", () => {
    expect(dimensionsOf({})).toEqual({
      ...SIZES,
      hashBlockSize: 16,
      hashLookaheadTokens: 0,
      extraEncoding: "pickle",
      blockSize: 16,
      groups: 1,
      blockCount: 64,
    });
  });

  it("counts a block over all decode-context ranks as one chunk with a whole number of hash blocks", () => {
    const cut = { tp: { rank: 1, size: 2 }, dcp: { rank: 1, size: 2 } };
    expect(dimensionsOf(cut)).toMatchObject({ blockSize: 32, hashBlockSize: 32 });
    const groups = [
      { kind: "full", layers: 1 },
      { kind: "full", layers: 1 },
    ] as const;
    const finer = dimensionsOf({ ...cut, groups, hashBlockSize: 8 });
    expect(finer).toMatchObject({ blockSize: 32, hashBlockSize: 8, groups: 2 });
  });

  it("takes the group's own block size where it is not the cache's", () => {
    const groups = [{ kind: "full", layers: 1, blockSize: 32 }] as const;
    expect(dimensionsOf({ groups })).toMatchObject({ blockSize: 32, hashBlockSize: 32 });
  });

  it("refuses groups whose blocks span different numbers of tokens", () => {
    const groups = [
      { kind: "full", layers: 1, blockSize: 32 },
      { kind: "full", layers: 1, blockSize: 16 },
    ] as const;
    let refusal: unknown;
    try {
      dimensionsOf({ groups });
    } catch (error) {
      refusal = error;
    }
    expect(refusal).toBeInstanceOf(MooncakeKvError);
    expect(refusal).toMatchObject({
      code: "UNSUPPORTED",
      field: "groups[1].blockSize",
      value: 16,
    });
  });
});
