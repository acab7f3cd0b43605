/**
 * Goal: what a vLLM process would write into a pool, a Node process reads, and the other way round, for every layout of the KV
 * cache and hash algorithm: the same keys, the same bytes.
 * Method: the wheel's own Python client calls the store as vLLM's connector does, with block addresses that vLLM computed (the
 * segment vectors) in storages as vLLM lays them out, under keys made of vLLM's hashes of known prompts. Whole Node runtimes on a
 * real pool look up, load and save the same prompts.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { poolKey, poolKeyPrefixes } from "../../src/keys/pool-keys.ts";
import type { RunningPool } from "../../src/pool/pool.ts";
import { ALGORITHMS, readHashFile } from "../vectors/hash-cases.ts";
import { namespaceOf, readVectors, topologyOf } from "../vectors/vectors.ts";
import type { VectorConfig } from "../vectors/vectors.ts";
import { pythonClient, startTestPool } from "./support/mooncake-wheel.ts";
import { blockKeys, writeStore } from "./support/real-pool.ts";
import { attachToPool, endRequest, loadInto, saveFrom } from "./support/real-pool-loop.ts";

const SEED = "0";
/** Three whole blocks and a rest, which is never in the pool. */
const TOKENS = 63;
const CHUNKS = 3;
const TEST_TIMEOUT_MS = 120_000;

interface Value {
  readonly shard: number;
  readonly block_ids: readonly number[];
  /** Per block, per segment: storage and offset. */
  readonly addrs: readonly (readonly (readonly [number, number])[])[];
  readonly sizes: readonly (readonly number[])[];
}
interface SegmentCase {
  readonly config: VectorConfig;
  readonly tensors: readonly { readonly storage_bytes: number }[];
  readonly groups: readonly {
    readonly shards: readonly number[];
    readonly values: readonly Value[];
  }[];
}

/** One rank with one group: its process sees all of a block. Others differ in numbers only, which unit tests compare. */
const CASES = readVectors<{ cases: SegmentCase[] }>("segments").cases.filter(
  ({ config, groups }) => (config.tp_size ?? 1) === 1 && groups.length === 1,
);

/** Any number draws other bytes for each place of a storage; Python has the same lines. */
function drawn(seed: number, at: number): number {
  return Math.floor((at * 2_654_435_761 + seed * 40_503) / 8192) & 255;
}
const DRAW_IN_PYTHON = `
import ctypes, mmap
from mooncake.store import ReplicateConfig
def storage_of(case, filled):
    size = case["storageBytes"]
    memory = mmap.mmap(-1, size)
    if filled:
        memory[:] = bytes((at * 2654435761 + case["seed"] * 40503) // 8192 & 255 for at in range(size))
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert store.register_buffer(base, size) == 0
    return memory, base
def placed(base, call):
    return [[base + at for at in addresses] for addresses in call["addresses"]]
`;
const WRITE_IN_PYTHON = `${DRAW_IN_PYTHON}
answer = []
for case in request["cases"]:
    memory, base = storage_of(case, True)
    for call in case["calls"]:
        answer.append(store.batch_put_from_multi_buffers(call["keys"], placed(base, call), call["sizes"], ReplicateConfig()))
    store.unregister_buffer(base)
`;
/** Reads key by key; answers with the results and the places whose bytes are not those that were drawn. */
const READ_IN_PYTHON = `${DRAW_IN_PYTHON}
answer = []
for case in request["cases"]:
    memory, base = storage_of(case, False)
    wanted = bytearray(case["storageBytes"])
    results = []
    for call in case["calls"]:
        for key, starts, addresses, sizes in zip(call["keys"], call["addresses"], placed(base, call), call["sizes"]):
            results.append(store.batch_get_into_multi_buffers([key], [addresses], [sizes])[0])
            for start, size in zip(starts, sizes):
                for at in range(start, start + size):
                    wanted[at] = (at * 2654435761 + case["seed"] * 40503) // 8192 & 255
    answer.append({"results": results, "equal": bytes(wanted) == memory[:]})
    store.unregister_buffer(base)
`;

interface Call {
  readonly keys: readonly string[];
  readonly addresses: readonly (readonly number[])[];
  readonly sizes: readonly (readonly number[])[];
}
interface GoldenPrompt {
  readonly tokens: readonly number[];
  readonly hashes: readonly string[];
}

let folder: string;
let pool: RunningPool;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "real-pool-interchange-"));
  pool = await startTestPool();
});
afterAll(async () => {
  await pool?.stop();
  rmSync(folder, { recursive: true });
});

/** The first blocks of a prompt whose hashes vLLM computed. */
function golden(caseIndex: number, sequence: string): GoldenPrompt {
  const file = readHashFile(ALGORITHMS[caseIndex % ALGORITHMS.length] ?? "sha256");
  const found = file.cases.find(
    (one) =>
      one.variant === "plain" &&
      one.seed === SEED &&
      one.block_size === 16 &&
      one.lookahead === 0 &&
      one.sequence === sequence,
  );
  const tokens = file.sequences[sequence]?.slice(0, TOKENS) ?? [];
  const hashes = found?.hashes.slice(0, CHUNKS) ?? [];
  if (hashes.length !== CHUNKS) throw new Error(`no golden hashes of ${sequence}`);
  return { tokens, hashes };
}

function kvCacheOf({ config }: SegmentCase, index: number) {
  return {
    ...topologyOf(config, { tp: 0, pp: 0, pcp: 0, dcp: 0 }),
    modelName: `org/case-${index}`,
    hashAlgorithm: ALGORITHMS[index % ALGORITHMS.length] ?? "sha256",
  };
}

/** The calls of vLLM's connector for the case's three blocks: one a shard, all in the one storage. */
function callsOf(one: SegmentCase, index: number, { hashes }: GoldenPrompt): Call[] {
  const { groups } = poolKeyPrefixes(kvCacheOf(one, index), namespaceOf(one.config));
  const own = groups[0]?.own ?? [];
  return (one.groups[0]?.values ?? []).map(({ shard, addrs, sizes }) => ({
    keys: hashes.map((hash) => poolKey(own[shard] ?? "", hash)),
    addresses: addrs.map((segments) => segments.map(([, offset]) => offset)),
    sizes,
  }));
}
const storageBytes = (one: SegmentCase): number => one.tensors[0]?.storage_bytes ?? 0;
const forPython = (
  one: SegmentCase,
  index: number,
  seed: number,
  prompt: GoldenPrompt,
): object => ({
  storageBytes: storageBytes(one),
  seed,
  calls: callsOf(one, index, prompt),
});

test("the cases are of all layouts and shapes, and their keys are vLLM's", () => {
  expect(new Set(CASES.map(({ config }) => config.layout ?? "LBHNC")).size).toBe(5);
  expect(CASES.some(({ config }) => config.extra_config !== undefined)).toBe(true);
  expect(CASES.length).toBeGreaterThan(10);
  const [first] = CASES;
  if (first === undefined) throw new Error("no cases");
  const prompt = golden(0, "len63");
  expect(callsOf(first, 0, prompt)[0]?.keys).toEqual(
    prompt.hashes.map((hash) => `case-0@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@${hash}`),
  );
});

test(
  "Node loads what the Python client has written, and the Python client reads what Node has saved, key by key",
  async () => {
    const theirs = CASES.map((_, index) => golden(index, "len63"));
    const ours = CASES.map((_, index) => golden(index, "len200"));
    const written = await pythonClient(pool.store, WRITE_IN_PYTHON, {
      cases: CASES.map((one, index) => forPython(one, index, index, golden(index, "len63"))),
    });
    expect((written as number[][]).flat().every((code) => code === 0)).toBe(true);
    const storePath = writeStore(folder, pool.store);
    for (const [index, one] of CASES.entries()) {
      const label = `case ${index} ${JSON.stringify(one.config)}`;
      const loop = await attachToPool(
        storePath,
        { kvCache: kvCacheOf(one, index), environment: { PYTHONHASHSEED: SEED } },
        one.config.extra_config ?? {},
      );
      const memory = new Uint8Array(loop.attached.kvMemory ?? new ArrayBuffer(0));
      expect(memory.length, label).toBe(storageBytes(one));
      // The blocks of the vectors, and one for the rest of the prompt.
      const blocks = [...(one.groups[0]?.values[0]?.block_ids ?? []), 7];
      const { tokens } = theirs[index] ?? { tokens: [] };
      expect(loadInto(loop, "theirs", tokens, blocks), label).toEqual({ found: 48, kept: 48 });
      expect(loop.attached.connector.scheduler.outcome("theirs")).toBe("HIT");
      const wanted = new Uint8Array(memory.length);
      for (const { addresses, sizes } of callsOf(
        one,
        index,
        theirs[index] ?? golden(index, "len63"),
      ))
        for (const [block, starts] of addresses.entries())
          for (const [segment, start] of starts.entries())
            for (let at = start; at < start + (sizes[block]?.[segment] ?? 0); at++)
              wanted[at] = drawn(index, at);
      expect(Buffer.compare(memory, wanted), label).toBe(0);
      endRequest(loop, "theirs");

      for (let at = 0; at < memory.length; at++) memory[at] = drawn(1000 + index, at);
      saveFrom(loop, "ours", ours[index]?.tokens ?? [], blocks);
      expect(await loop.attached.stop(), label).toBe(0);
    }
    const read = (await pythonClient(pool.store, READ_IN_PYTHON, {
      cases: CASES.map((one, index) =>
        forPython(one, index, 1000 + index, ours[index] ?? golden(index, "len200")),
      ),
    })) as { results: number[]; equal: boolean }[];
    for (const [index, one] of CASES.entries()) {
      const sizes = callsOf(one, index, golden(index, "len200")).flatMap((call) => call.sizes);
      const results = sizes.map((each) => each.reduce((sum, bytes) => sum + bytes, 0));
      expect(read[index], `case ${index}`).toEqual({ results, equal: true });
    }
    // Nothing else is there: what Node saved has no key that vLLM would not have written.
    const shards = CASES.map((one) => one.groups[0]?.values.length ?? 0);
    const keys = 2 * CHUNKS * shards.reduce((sum, count) => sum + count, 0);
    expect(await blockKeys(pool.master)).toHaveLength(keys);
  },
  TEST_TIMEOUT_MS,
);
