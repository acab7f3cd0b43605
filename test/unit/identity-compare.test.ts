/**
 * Goal: what chooses keys and what chooses bytes are told apart, and nothing is called different that would read right.
 * Method: identities of configurations that differ in one thing, published as bytes and read back, then compared.
 */
import { describe, expect, test } from "vitest";
import { normalizeKvCacheConfig } from "../../src/config/kv-cache-normalize.ts";
import type { KvCacheConfigInput } from "../../src/config/kv-cache-config.ts";
import { compareIdentities } from "../../src/connector/identity/compare.ts";
import { identityKey, poolIdentity } from "../../src/connector/identity/identity.ts";
import type { IdentityInput } from "../../src/connector/identity/identity.ts";
import { decodeIdentity, encodeIdentity } from "../../src/connector/identity/identity-value.ts";

const NONE_HASH = new Uint8Array(32).fill(7);
const PLAIN: KvCacheConfigInput = {
  modelName: "org/model",
  dtype: "float16",
  layout: "LBHNC",
  blockSize: 16,
  blockCount: 8,
  groups: [{ kind: "full", layers: 4 }],
  heads: { kvHeads: 8, headSize: 64 },
};

type Change = Partial<KvCacheConfigInput>;
function identity(change: Change = {}, rest: Partial<IdentityInput> = {}) {
  const kvCache = normalizeKvCacheConfig({ ...PLAIN, ...change });
  return poolIdentity({ kvCache, cachePrefix: "", noneHash: NONE_HASH, ...rest });
}

/** Fields of ours that differ from what the other has published. */
function differing(ours: ReturnType<typeof identity>, theirs: ReturnType<typeof identity>) {
  const read = decodeIdentity(encodeIdentity(theirs));
  if (!read.ok) throw new Error(read.problem);
  const { keys, bytes } = compareIdentities(ours, read.identity);
  return { keys: keys.map(({ field }) => field), bytes: bytes.map(({ field }) => field) };
}
const SAME = { keys: [], bytes: [] };

test("the key is the model's as in keys of blocks, behind the prefix", () => {
  expect(identityKey("/models/org/model/", "")).toBe("model@mooncake-kv-identity");
  expect(identityKey("org/model", "team")).toBe("team@model@mooncake-kv-identity");
});

test("equal identities are equal bytes, and the format is in them", () => {
  const value = encodeIdentity(identity());
  expect(value).toEqual(encodeIdentity(identity()));
  const text = Buffer.from(value).toString();
  expect(text.indexOf('"bytes"')).toBeLessThan(text.indexOf('"format":1'));
  expect(JSON.parse(text)).toEqual({ format: 1, ...identity() });
});

describe("what chooses bytes under equal keys", () => {
  test.each<[string, Change, Change]>([
    ["bytes.dtype", { dtype: "bfloat16" }, {}],
    ["bytes.layout", { layout: "LBNHC" }, { layout: "LBHNC" }],
    ["bytes.headSize", { heads: { kvHeads: 8, headSize: 32 } }, {}],
    ["bytes.heads", { tp: { rank: 0, size: 2 } }, {}],
    ["bytes.groups[0].layers", { groups: [{ kind: "full", layers: 5 }] }, {}],
    ["bytes.weightsFingerprint", { weightsFingerprint: "b" }, { weightsFingerprint: "a" }],
  ])("%s", (field, ours, theirs) => {
    expect(differing(identity(ours), identity(theirs)).bytes).toEqual([field]);
  });

  test("sizes of one group of several", () => {
    const groups = (second: object) => [
      { kind: "full", layers: 4 } as const,
      { kind: "mamba", layers: 4, ...second } as const,
    ];
    const model = { stateBytes: 512, hashBlockSize: 16 };
    const ours = identity({ ...model, groups: groups({ stateBytes: 1024 }) });
    expect(differing(ours, identity({ ...model, groups: groups({}) }))).toEqual({
      keys: [],
      bytes: ["bytes.groups[1].stateBytes"],
    });
    const heads = [4, 8].map((kvHeads) =>
      identity({ groups: [{ kind: "full", layers: 4, heads: { kvHeads, headSize: 64 } }] }),
    );
    expect(differing(heads[0]!, heads[1]!).bytes).toEqual(["bytes.groups[0].heads"]);
  });

  // A block is named by the last of its hashes: with one hash block size the longer blocks' names are among the shorter ones'.
  test("block sizes over one hash block size", () => {
    const groups = (first: number) =>
      [first, 16].map((blockSize) => ({ kind: "full", layers: 4, blockSize }) as const);
    const ours = identity({ groups: groups(32), hashBlockSize: 16 });
    expect(differing(ours, identity({ groups: groups(16), hashBlockSize: 16 }))).toEqual({
      keys: ["keys.blockSizes"],
      bytes: ["bytes.groups[0].hashBlocks"],
    });
  });

  test("groups in another number", () => {
    const groups = [...PLAIN.groups, { kind: "full", layers: 4 }] as const;
    expect(differing(identity({ groups }), identity()).bytes).toContain("bytes.groups");
  });
});

describe("what chooses keys", () => {
  test("hash algorithm", () => {
    expect(differing(identity({ hashAlgorithm: "sha256_cbor" }), identity())).toEqual({
      keys: ["keys.hashAlgorithm"],
      bytes: [],
    });
  });
  test("block size, hashed as it is", () => {
    expect(differing(identity({ blockSize: 32 }), identity())).toEqual({
      keys: ["keys.hashBlockSize", "keys.blockSizes"],
      bytes: [],
    });
  });
  test("the seed's NONE_HASH", () => {
    const ours = identity({}, { noneHash: new Uint8Array(32) });
    expect(differing(ours, identity())).toEqual({ keys: ["keys.noneHash"], bytes: [] });
  });
  test("the store's shape; its values have fewer heads too", () => {
    const ours = identity({}, { storeTp: { storeTpSize: 4 } });
    expect(differing(ours, identity())).toEqual({
      keys: ["keys.storeShape"],
      bytes: ["bytes.heads"],
    });
  });
});

describe("what reads right all the same", () => {
  test.each<[string, Change, Change]>([
    ["the axis of blocks elsewhere", { layout: "BLHNC" }, { layout: "LBHNC" }],
    ["more blocks", { blockCount: 99 }, {}],
    ["a fingerprint that only one gives", { weightsFingerprint: "a" }, {}],
    ["none here, one there", {}, { weightsFingerprint: "a" }],
    ["another rank", { tp: { rank: 1, size: 2 } }, { tp: { rank: 0, size: 2 } }],
    [
      "more ranks than heads",
      { heads: { kvHeads: 1, headSize: 64 }, tp: { rank: 0, size: 4 } },
      { heads: { kvHeads: 1, headSize: 64 }, tp: { rank: 0, size: 2 } },
    ],
    [
      "layers of another pipeline stage",
      { pp: { rank: 1, size: 2 }, groups: [{ kind: "full", layers: 3 }] },
      { pp: { rank: 0, size: 2 } },
    ],
  ])("%s", (_what, ours, theirs) => {
    expect(differing(identity(ours), identity(theirs))).toEqual(SAME);
  });

  test("one store shape of several tensor-parallel sizes", () => {
    const storeTp = { storeTpSize: 4 };
    const two = identity({ tp: { rank: 1, size: 2 } }, { storeTp });
    expect(differing(two, identity({ tp: { rank: 0, size: 4 } }, { storeTp }))).toEqual(SAME);
  });

  test("a field that the published value lacks", () => {
    const ours = identity();
    expect(compareIdentities(ours, { keys: {}, bytes: {} })).toEqual(SAME);
  });
});

test.each([
  ["no JSON", "{", "it is no JSON text"],
  ["no object", "[1]", "it is no JSON object"],
  ["deep lists", "[".repeat(3000) + "]".repeat(3000), "it is no JSON object"],
  [
    "a deep field",
    `{"keys":${"[".repeat(3000)}${"]".repeat(3000)}}`,
    "it is nested more deeply than an identity",
  ],
  ["a long format", `{"format":"${"x".repeat(1000)}"}`, `its format is "${"x".repeat(196)}...`],
  ["no format", "{}", "its format is not given"],
  ["half of it", '{"format":1,"keys":{}}', "it lacks its two groups of fields"],
])("a value that cannot be read: %s", (_what, text, problem) => {
  expect(decodeIdentity(Buffer.from(text))).toEqual({ ok: false, problem });
});

test("a value of another format may be a newer version's", () => {
  const value = Buffer.from('{"format":2,"keys":{},"bytes":{}}');
  expect(decodeIdentity(value)).toEqual({
    ok: false,
    problem: "its format is 2",
    otherFormat: true,
  });
});

test("what differs is shown in short", () => {
  const theirs = { keys: {}, bytes: { dtype: "x".repeat(60_000) } };
  const [difference] = compareIdentities(identity(), theirs).bytes;
  expect(difference?.theirs.length).toBe(200);
});

test("a value that is too long, or no text, is not read", () => {
  expect(decodeIdentity(new Uint8Array(70_000)).ok).toBe(false);
  expect(decodeIdentity(new Uint8Array([0xff])).ok).toBe(false);
});
