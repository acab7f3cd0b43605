/**
 * Goal: the pair that the guide shows, a vLLM and a loop of one's own on one pool, agrees in everything that chooses names and bytes,
 * and the loop stores what vLLM stores: its key for each block, and its bytes in its order.
 * Method: the guide's own command and configuration. The configuration attaches to a local pool and saves a prompt whose hashes vLLM
 * computed; a second loop, whose blocks are plain memory with one segment, reads the values as they are.
 */
import { afterEach, beforeAll, expect, test } from "vitest";
import type { AttachOptions } from "../../src/index.ts";
import { readHashFile } from "../vectors/hash-cases.ts";
import { EmbeddedLoop } from "./support/embedded.ts";
import { GUIDES, readGuide, sectionOf } from "./support/guide.ts";
import { loadInto, saveFrom } from "./support/real-pool-loop.ts";
import { freshPoolName } from "./support/serving.ts";

const BLOCKS = 3;

let command: string;
let options: AttachOptions;
beforeAll(async () => {
  const { blocks } = sectionOf(readGuide(GUIDES[0]), 5);
  command = blocks.find(({ text }) => text.includes("vllm serve"))?.text ?? "";
  const module = blocks.find(({ text }) => text.includes("attachConnector"))?.text ?? "";
  const given = module.replace(/^import .*$/m, "const attachConnector = (options) => options;");
  const { joinPool } = (await import(
    `data:text/javascript,${encodeURIComponent(given)}`
  )) as unknown as { joinPool: (blockPool: unknown) => AttachOptions };
  options = joinPool(null);
});

const loops: EmbeddedLoop[] = [];
afterEach(async () => {
  for (const loop of loops.splice(0)) expect(await loop.attached.stop()).toBe(0);
});
async function attach(pool: string, more: Partial<AttachOptions> = {}): Promise<EmbeddedLoop> {
  const { blockPool: _pool, kvTransferConfig: _transfer, ...given } = options;
  const environment = { PYTHONHASHSEED: /PYTHONHASHSEED=(\S+)/.exec(command)?.[1] };
  const loop = await EmbeddedLoop.attach({ pool_name: pool }, { ...given, environment, ...more });
  loops.push(loop);
  return loop;
}

test("both sides state layout, element type, hash algorithm, block size and model, and they are the same", () => {
  const { kvCache, kvTransferConfig } = options;
  const option = (name: string): string | undefined =>
    new RegExp(`--${name} '?([^\\s']+)`).exec(command)?.[1];
  expect(/VLLM_KV_CACHE_LAYOUT=(\S+)/.exec(command)?.[1]).toBe(kvCache.layout);
  expect(option("dtype")).toBe(kvCache.dtype);
  // The KV cache has the model's element type.
  expect(option("kv-cache-dtype")).toBe("auto");
  expect(option("prefix-caching-hash-algo")).toBe(kvCache.hashAlgorithm);
  expect(Number(option("block-size"))).toBe(kvCache.blockSize);
  expect(/vllm serve (\S+)/.exec(command)?.[1]).toBe(kvCache.modelName);
  const transfer: unknown = JSON.parse(/--kv-transfer-config '([^']+)'/.exec(command)?.[1] ?? "");
  expect(transfer).toEqual(kvTransferConfig);
});

test("the loop stores vLLM's keys, with a block's bytes in vLLM's order", async () => {
  const { kvCache } = options;
  const golden = readHashFile(kvCache.hashAlgorithm ?? "sha256");
  const one = golden.cases.find(
    ({ variant, seed, block_size: size, lookahead, sequence, hashes }) =>
      [variant, seed, size, lookahead].join() === ["plain", "0", kvCache.blockSize, 0].join() &&
      typeof sequence === "string" &&
      hashes.length >= BLOCKS,
  );
  const sequence = golden.sequences[one?.sequence ?? ""] ?? [];
  const prompt = sequence.slice(0, BLOCKS * kvCache.blockSize + 1);
  const pool = freshPoolName();
  const mine = await attach(pool);
  const layers = kvCache.groups[0]?.layers ?? 0;
  const { kvHeads, headSize } = kvCache.heads;
  const sizes = { L: layers, B: kvCache.blockCount, N: kvCache.blockSize, H: kvHeads };
  const contentBytes = 2 * headSize * 2;
  // LBNHC: the axes of one value in its order; so is memory whose layout is stated.
  const memory = new Uint8Array(mine.attached.kvStorages[0] ?? new ArrayBuffer(0));
  const offset = (block: number, layer: number, token: number, head: number): number => {
    const at: Record<string, number> = { B: block, L: layer, N: token, H: head };
    return "LBNHC"
      .split("")
      .filter((axis): axis is keyof typeof sizes => axis !== "C")
      .reduce((sum, axis) => sum * sizes[axis] + (at[axis] ?? 0), 0);
  };
  const drawn = (block: number, layer: number, token: number, head: number): number =>
    (block * 131 + layer * 31 + token * 7 + head * 3) & 255;
  const own = Array.from({ length: BLOCKS + 1 }, (_, index) => index + 1);
  const fill = (block: number): void => {
    for (let layer = 0; layer < layers; layer++)
      for (let token = 0; token < kvCache.blockSize; token++)
        for (let head = 0; head < kvHeads; head++) {
          const from = offset(block, layer, token, head) * contentBytes;
          memory.fill(drawn(block, layer, token, head), from, from + contentBytes);
        }
  };
  for (const block of own) fill(block);
  saveFrom(mine, "first", prompt, own);
  const { native, engineId } = mine.runtime;
  const stem = "Qwen2.5-0.5B-Instruct@tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@";
  expect(native.engineKeys(engineId, stem, 100).toSorted()).toEqual(
    one?.hashes
      .slice(0, BLOCKS)
      .map((hash) => stem + hash)
      .toSorted(),
  );

  const bytes = layers * kvCache.blockSize * kvHeads * contentBytes;
  const plain = new Uint8Array(kvCache.blockCount * bytes);
  const segments = [[{ offset: 0, strideBytes: bytes, bytes }]];
  const other = await attach(pool, { kvMemory: { kind: "user", memory: plain, segments } });
  const target = own.map((block) => block + 10);
  expect(loadInto(other, "second", prompt, target).kept).toBe(BLOCKS * kvCache.blockSize);
  other.attached.connector.scheduler.requestFinished("second");
  other.stepUntil(() => other.attached.connector.idle());
  for (const [index, block] of target.slice(0, BLOCKS).entries()) {
    const wanted = Buffer.alloc(bytes);
    let at = 0;
    for (let layer = 0; layer < layers; layer++)
      for (let token = 0; token < kvCache.blockSize; token++)
        for (let head = 0; head < kvHeads; head++, at += contentBytes)
          wanted.fill(drawn(own[index] ?? 0, layer, token, head), at, at + contentBytes);
    expect(Buffer.compare(plain.subarray(block * bytes, (block + 1) * bytes), wanted)).toBe(0);
  }
});
