import { HASH_STRIDE_WORDS, REQUEST_HASH_PAGE } from "../../src/blocks/layout.ts";
import type { Tables } from "../../src/blocks/tables.ts";
import { DEFAULT_HASH_ALGORITHM } from "../../src/config/kv-cache-config.ts";
import { hashBlocks } from "../../src/keys/block-hash.ts";
import { noneHash } from "../../src/keys/none-hash.ts";
import type { NativeBinding } from "../../src/native/binding.ts";
import { median, type Report } from "./report.ts";
import { BenchTables } from "./scheduler-world.ts";
import { hashPrompt } from "./stand-ins.ts";
import { uniquePrompt } from "./step-phases.ts";

const PROMPT_TOKENS = 1008;
const BLOCK_SIZE = 16;
const BLOCKS = PROMPT_TOKENS / BLOCK_SIZE;
const ROUNDS = 400;
const WARM_UP_ROUNDS = 60;
const DIGEST_BYTES = 32;

/** The same prompts hashed by the addon (from the token row into the hash row) and by its twin, in turns. */
export function measureHashing(native: NativeBinding, report: Report): void {
  const shared = new BenchTables(native, {
    requestSlots: 1,
    jobSlots: 1,
    tokensPerRequestMax: PROMPT_TOKENS,
    tokensMax: PROMPT_TOKENS,
    hashBlockSize: BLOCK_SIZE,
    hashLookaheadTokens: 0,
    extraEncoding: "pickle",
    blockSize: BLOCK_SIZE,
    groups: 1,
    blockCount: 2,
    stepSequencesMax: 0,
  });
  const { tables, slots, context } = shared;
  const parent = noneHash(null, DEFAULT_HASH_ALGORITHM);
  const addon: number[] = [];
  const twin: number[] = [];
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
    const tokens = uniquePrompt(PROMPT_TOKENS);
    const added = slots.addRequest({ tokens, tokensMax: PROMPT_TOKENS });
    if (!added.ok) throw new Error(`the bench's tables are too small: ${added.remedy}`);
    const start = native.monotonicNanoseconds();
    hashPrompt(tables, added.slot, context.hashBlocks);
    const between = native.monotonicNanoseconds();
    const digests = hashBlocks({ tokens, blockSize: BLOCK_SIZE }, parent, DEFAULT_HASH_ALGORITHM);
    const end = native.monotonicNanoseconds();
    checkEqual(tables, added.slot, digests);
    slots.release(added.slot);
    if (round < WARM_UP_ROUNDS) continue;
    addon.push(between - start);
    twin.push(end - between);
  }
  report.figure("hashing 1,008 tokens in the addon", median(addon) / 1e3, "us");
  report.figure("  a block of 16 tokens", median(addon) / BLOCKS, "ns");
  report.figure("hashing 1,008 tokens in TypeScript", median(twin) / 1e3, "us");
  report.ratio("hash-addon-over-typescript", median(addon) / median(twin), "most", 0.5);
}

function checkEqual(tables: Tables, slot: number, digests: Uint8Array): void {
  const { hashes, requests } = tables;
  const first = requests[tables.request(slot) + REQUEST_HASH_PAGE]!;
  const expected = new Int32Array(digests.buffer, digests.byteOffset, digests.byteLength / 4);
  for (let block = 0; block < digests.byteLength / DIGEST_BYTES; block++) {
    const at = hashes.offset(first, block);
    for (let word = 0; word < HASH_STRIDE_WORDS; word++) {
      if (hashes.words[at + word] !== expected[block * HASH_STRIDE_WORDS + word])
        throw new Error(`the addon and its twin differ at block ${block}`);
    }
  }
}
