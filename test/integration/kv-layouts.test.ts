/**
 * Goal: KV memory in each layout, the runtime's own or the serving loop's allocations, gives and takes the same values: what one
 * layout saved another loads, element by element, where heads and tokens lie in the same order.
 * Method: two attached connectors on one local pool; elements are found by the axes' strides, worked out here from the layout's name.
 */
import { afterEach, describe, expect, test } from "vitest";
import type { KvLayout, KvTensor } from "../../src/index.ts";
import { BLOCK, BLOCK_COUNT, EmbeddedLoop, KV_CACHE, tokens } from "./support/embedded.ts";
import { freshPoolName } from "./support/serving.ts";

const SIZES = { L: 2, B: BLOCK_COUNT, H: 2, N: BLOCK, C: 16 };
const ELEMENTS = SIZES.L * SIZES.H * SIZES.N * SIZES.C;
type Axis = keyof typeof SIZES;

const loops: EmbeddedLoop[] = [];
afterEach(async () => {
  for (const loop of loops.splice(0)) expect(await loop.attached.stop()).toBe(0);
});

/** Elements of a block in the order layer, head, token, content. */
function elementsOf(memory: ArrayBufferLike, layout: KvLayout, block: number): Uint16Array {
  const strides: Record<string, number> = {};
  let stride = 1;
  for (const axis of layout.split("").toReversed() as Axis[]) {
    strides[axis] = stride;
    stride *= SIZES[axis];
  }
  const words = new Uint16Array(memory);
  const elements = new Uint16Array(ELEMENTS);
  let next = 0;
  for (let layer = 0; layer < SIZES.L; layer++)
    for (let head = 0; head < SIZES.H; head++)
      for (let token = 0; token < SIZES.N; token++)
        for (let content = 0; content < SIZES.C; content++) {
          const at = { L: layer, B: block, H: head, N: token, C: content };
          const offset = (Object.keys(at) as Axis[]).reduce(
            (sum, axis) => sum + at[axis] * (strides[axis] ?? 0),
            0,
          );
          elements[next++] = words[offset] ?? 0;
        }
  return elements;
}

async function attach(
  extra: Readonly<Record<string, unknown>>,
  options: Parameters<typeof EmbeddedLoop.attach>[1],
): Promise<EmbeddedLoop> {
  const loop = await EmbeddedLoop.attach(extra, options);
  loops.push(loop);
  return loop;
}

function save(loop: EmbeddedLoop, memory: ArrayBufferLike): number[] {
  const words = new Uint16Array(memory);
  for (let at = 0; at < words.length; at++) words[at] = (at * 40_503) >> 3;
  return loop.computeAndSave("first", tokens(40, 1), () => undefined);
}
function load(loop: EmbeddedLoop): number[] {
  const { scheduler } = loop.attached.connector;
  scheduler.addRequest("second", tokens(40, 1));
  const [found] = loop.match("second");
  expect(found).toBe(32);
  const blocks = loop.blocks(20).slice(-3);
  scheduler.updateStateAfterAlloc("second", [blocks], found);
  const done = loop.stepUntil(({ finishedRecving }) => finishedRecving.includes("second"));
  expect(done.failedLoads).toEqual([]);
  scheduler.requestFinished("second");
  loop.stepUntil(() => loop.attached.connector.idle());
  return blocks.slice(0, 2);
}

describe("memory of the runtime's own", () => {
  test.each<[KvLayout, KvLayout]>([
    ["LBHNC", "LHBNC"],
    ["LHBNC", "BLHNC"],
    ["BLHNC", "LBHNC"],
    ["LBNHC", "BLNHC"],
    ["BLNHC", "LBNHC"],
  ])("what %s saved, %s loads", async (from, to) => {
    const pool = { pool_name: freshPoolName() };
    const [first, second] = [
      await attach(pool, { kvCache: { ...KV_CACHE, layout: from } }),
      await attach(pool, { kvCache: { ...KV_CACHE, layout: to } }),
    ];
    const [source, target] = [first, second].map(({ attached }) => attached.kvStorages[0]);
    if (source === undefined || target === undefined) throw new Error("no memory");
    expect(source.byteLength).toBe(2 * ELEMENTS * BLOCK_COUNT);
    const saved = save(first, source);
    load(second).forEach((block, index) =>
      expect(elementsOf(target, to, block)).toEqual(elementsOf(source, from, saved[index] ?? 0)),
    );
  });

  test("enable_cross_layers_blocks lays blocks outermost; so does a cache whose layout nobody states", async () => {
    for (const [extra, layout] of [
      [{ enable_cross_layers_blocks: true }, "LBNHC"],
      [{}, undefined],
    ] as const) {
      const kvCache = { ...KV_CACHE, ...(layout === undefined ? {} : { layout }) };
      const loop = await attach(extra, { kvCache });
      const segments = loop.runtime.plan.workers[0]?.firstValueOfGroup;
      expect(segments).toEqual([0]);
      const memory = loop.attached.kvMemory ?? new ArrayBuffer(0);
      const saved = save(loop, memory);
      const outermost = "BLNHC";
      const wanted = saved.slice(0, 2).map((block) => elementsOf(memory, outermost, block));
      expect(load(loop).map((block) => elementsOf(memory, outermost, block))).toEqual(wanted);
    }
  });
});

describe("a layout that nobody states", () => {
  const join = async (
    pool: Readonly<Record<string, unknown>>,
    layout: KvLayout | undefined,
    environment: Readonly<Record<string, string>> = {},
  ): Promise<EmbeddedLoop> => {
    const kvCache = layout === undefined ? KV_CACHE : { ...KV_CACHE, layout };
    return await attach(pool, { kvCache, environment });
  };

  test("is vLLM's: one that states LBNHC finds the same values, element by element", async () => {
    const pool = { pool_name: freshPoolName() };
    const [first, second] = [await join(pool, undefined), await join(pool, "LBNHC")];
    const source = first.attached.kvStorages[0] ?? new ArrayBuffer(0);
    const target = second.attached.kvStorages[0] ?? new ArrayBuffer(0);
    const saved = save(first, source);
    load(second).forEach((block, index) =>
      expect(elementsOf(target, "LBNHC", block)).toEqual(
        elementsOf(source, "BLNHC", saved[index] ?? 0),
      ),
    );
    const line = first.log.lines.find(({ text }) => text.includes("KV cache layout"));
    expect(line).toMatchObject({ level: "info", text: expect.stringContaining("LBNHC") });
  });

  test("follows VLLM_KV_CACHE_LAYOUT, by its old names too", async () => {
    const [variable, layout, inMemory] = ["HND", "LBHNC", "BLHNC"] as const;
    const pool = { pool_name: freshPoolName() };
    const environment = { VLLM_KV_CACHE_LAYOUT: variable };
    const [first, second] = [await join(pool, undefined, environment), await join(pool, layout)];
    const source = first.attached.kvStorages[0] ?? new ArrayBuffer(0);
    const target = second.attached.kvStorages[0] ?? new ArrayBuffer(0);
    const saved = save(first, source);
    load(second).forEach((block, index) =>
      expect(elementsOf(target, layout, block)).toEqual(
        elementsOf(source, inMemory, saved[index] ?? 0),
      ),
    );
  });
});

test("memory of the serving loop's own: an allocation for each layer, stated as views", async () => {
  const layerBytes = (2 * ELEMENTS * BLOCK_COUNT) / SIZES.L;
  const storages = [0, 1].map(() => new Uint8Array(new SharedArrayBuffer(layerBytes)));
  const token = SIZES.C * 2;
  const views = [0, 1].map((storage): KvTensor => ({
    shape: [BLOCK_COUNT, SIZES.H, SIZES.N, SIZES.C],
    strideBytes: [SIZES.H * SIZES.N * token, SIZES.N * token, token, 2],
    elementBytes: 2,
    storage,
    storageBytes: layerBytes,
    offset: 0,
  }));
  const pool = { pool_name: freshPoolName() };
  const stated = { kind: "storages", storages, tensors: [views] } as const;
  // Nobody states the layout: it is vLLM's, with the heads within the tokens, and these views have it the other way round.
  await expect(attach(pool, { kvCache: KV_CACHE, kvMemory: stated })).rejects.toMatchObject({
    code: "INVALID_VALUE",
    field: "kvMemory.tensors",
  });
  const mine = await attach(pool, {
    kvCache: { ...KV_CACHE, layout: "LBHNC" },
    kvMemory: stated,
  });
  expect([mine.attached.kvMemory, mine.attached.kvStorages]).toEqual([null, []]);
  for (const [layer, storage] of storages.entries())
    storage.forEach((_, at) => (storage[at] = (at * (layer + 3) * 40_503) >> 5));
  const saved = mine.computeAndSave("first", tokens(40, 1), () => undefined);
  const other = await attach(pool, { kvCache: { ...KV_CACHE, layout: "LBHNC" } });
  const target = other.attached.kvStorages[0] ?? new ArrayBuffer(0);
  load(other).forEach((block, index) => {
    const bytes = storages.map((storage) => {
      const size = layerBytes / BLOCK_COUNT;
      return storage.subarray((saved[index] ?? 0) * size, ((saved[index] ?? 0) + 1) * size);
    });
    const loaded = new Uint8Array(elementsOf(target, "LBHNC", block).buffer);
    expect(Buffer.compare(loaded, Buffer.concat(bytes))).toBe(0);
  });
});
