/**
 * Block hashing in the addon against Python's hashlib with pickle or cbor2, which is what vLLM hashes with: the same prompts, in
 * turns, in one run, and every last digest compared.
 */
import { HASH_STRIDE_WORDS, NONE } from "../src/blocks/layout.ts";
import { RequestSlots } from "../src/blocks/request-slots.ts";
import { createTableBuffers, Tables } from "../src/blocks/tables.ts";
import { REQUEST_HASH_PAGE, REQUEST_TOKEN_PAGE } from "../src/blocks/layout.ts";
import { HASH_ALGORITHMS, HASH_ALGORITHMS_SUPPORTED } from "../src/config/kv-cache-config.ts";
import type { HashAlgorithmName } from "../src/config/kv-cache-config.ts";
import { noneHash } from "../src/keys/none-hash.ts";
import { loadNative } from "../src/native/load.ts";
import { PythonBaseline } from "./lib/python-baseline.ts";
import { median, Report } from "./lib/report.ts";

const PROMPT_TOKENS = 64 * 512;
const VOCABULARY = 128_000;
const ROUNDS = 25;
const WARM_UP_ROUNDS = 5;
const SEED = "0";
/** The least ratios to Python, by block size. The xxhash variants are shown for comparison: nobody asks them to be faster. */
const REACH: { readonly [name in HashAlgorithmName]?: { readonly [blockSize: number]: number } } = {
  sha256_cbor: { 16: 15, 64: 10 },
  sha256: { 16: 10, 64: 6 },
};

const native = loadNative();
const report = new Report("hash");

/** Hashes one prompt through shared tables; returns nanoseconds and the last digest in hex. */
class AddonHashing {
  readonly #tables: Tables;
  readonly #slots: RequestSlots;
  readonly #hasherId: number;
  readonly #digestBytes: number;
  readonly #blocks: number;

  constructor(algorithm: HashAlgorithmName, blockSize: number) {
    const buffers = createTableBuffers({
      requestSlots: 1,
      jobSlots: 1,
      tokensPerRequestMax: PROMPT_TOKENS,
      tokensMax: PROMPT_TOKENS,
      hashBlockSize: blockSize,
      hashLookaheadTokens: 0,
      extraEncoding: HASH_ALGORITHMS[algorithm].encoding,
      blockSize,
      groups: 1,
      blockCount: 2,
      stepSequencesMax: 0,
    });
    this.#tables = new Tables(buffers);
    this.#slots = new RequestSlots(this.#tables);
    this.#blocks = PROMPT_TOKENS / blockSize;
    this.#digestBytes = HASH_ALGORITHMS[algorithm].digestBytes;
    this.#hasherId = native.hasherRegister({
      algorithm,
      blockSize,
      noneHash: noneHash(SEED, algorithm),
      tokensSharedId: native.sharedRegister(new Uint8Array(buffers.tokenPages)),
      hashesSharedId: native.sharedRegister(new Uint8Array(buffers.hashPages)),
    });
  }

  hash(tokens: Int32Array): { nanoseconds: number; last: string } {
    const added = this.#slots.addRequest({ tokens, tokensMax: tokens.length });
    if (!added.ok) throw new Error(added.remedy);
    const { requests, hashes } = this.#tables;
    const at = this.#tables.request(added.slot);
    const hashPage = requests[at + REQUEST_HASH_PAGE]!;
    const tokenPage = requests[at + REQUEST_TOKEN_PAGE]!;
    const start = native.monotonicNanoseconds();
    native.hashBlocks(this.#hasherId, tokenPage, hashPage, NONE, 0, this.#blocks);
    const nanoseconds = native.monotonicNanoseconds() - start;
    const word = hashes.offset(hashPage, this.#blocks - 1);
    const row = hashes.words.slice(word, word + HASH_STRIDE_WORDS);
    const last = Buffer.from(row.buffer, 0, this.#digestBytes).toString("hex");
    this.#slots.release(added.slot);
    return { nanoseconds, last };
  }
}

let state = 12345;
function randomPrompt(): Int32Array {
  return Int32Array.from({ length: PROMPT_TOKENS }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * VOCABULARY);
  });
}

const python = new PythonBaseline();
console.log(`  against ${python.version}`);
for (const algorithm of HASH_ALGORITHMS_SUPPORTED) {
  for (const blockSize of [16, 64]) {
    const reach = REACH[algorithm]?.[blockSize];
    const hashing = new AddonHashing(algorithm, blockSize);
    const blocks = PROMPT_TOKENS / blockSize;
    const addon: number[] = [];
    const baseline: number[] = [];
    for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
      const tokens = randomPrompt();
      const own = hashing.hash(tokens);
      if (round >= WARM_UP_ROUNDS) addon.push(own.nanoseconds / blocks);
      if (reach === undefined) continue;
      const parent = Buffer.from(noneHash(SEED, algorithm)).toString("hex");
      const other = await python.ask({ algorithm, blockSize, parent, tokens: [...tokens] });
      if (other.last !== own.last) throw new Error(`${algorithm}: the digests differ`);
      if (round >= WARM_UP_ROUNDS) baseline.push(other.nanoseconds / blocks);
    }
    report.figure(`${algorithm}, a block of ${blockSize}, in the addon`, median(addon), "ns");
    if (reach === undefined) continue;
    report.figure(`${algorithm}, a block of ${blockSize}, in Python`, median(baseline), "ns");
    const ratio = median(baseline) / median(addon);
    report.ratio(`${algorithm}-${blockSize}-python-over-addon`, ratio, "least", reach);
  }
}
python.close();
report.close();
