/**
 * The real pool through Node against the wheel's own Python client, called as vLLM calls it: the same master and owner, the same
 * run, pairs in turns, over TCP on loopback. Save and load for every shape of a block; lookups from hash rows to the decision
 * against the bare call. A second Python client takes its turns too: what it makes of the first one says how much of a ratio is
 * noise on this machine.
 */
import { OPERATION_EXISTS, OPERATION_GET, OPERATION_PUT } from "../src/blocks/layout.ts";
import { parseStoreConfig } from "../src/config/store-config.ts";
import { loadNative } from "../src/native/load.ts";
import type { MooncakeEngineOptions } from "../src/native/binding.ts";
import { engineOptionsWith } from "../src/store/mooncake/engine-options.ts";
import { POOL_BYTES, startBenchPool } from "./lib/bench-pool.ts";
import { inTurns, Pairs } from "./lib/pairs.ts";
import { PoolBaseline } from "./lib/pool-baseline.ts";
import { PoolNode } from "./lib/pool-node.ts";
import type { PoolShape } from "./lib/pool-node.ts";
import { median, Report } from "./lib/report.ts";

const MIB = 2 ** 20;
const REGION_BYTES = 128 * MIB;
const BATCH_BYTES = 32 * MIB;
const BLOCKS_MAX = 32;
/** More buffers in one call fail in the wheel, whose queue of TCP transfers holds 1,024. */
const BUFFERS_MAX = 1024;
const PAIRS = 9;
const WARM_UP_PAIRS = 1;
/** Calls of each in a pair: small batches take microseconds, and one slow wake-up must not decide a pair. */
const CALLS_MAX = 16;
const PAIR_BYTES = 64 * MIB;
const LOOKUP_CALLS = 8;
const SEGMENTS = [1, 4, 16, 64];
const SEGMENT_BYTES = [4 * 1024, 64 * 1024, 512 * 1024, 2 * MIB];
const LOOKUPS = [
  { keys: 64, bound: 2 },
  { keys: 512, bound: 1.2 },
  { keys: 2048, bound: 1.2 },
];

const native = loadNative();
const report = new Report("pool");
const { wheel, pool } = await startBenchPool();
try {
  await measure(pool.store.master_server_address);
} finally {
  await pool.stop();
}
report.close();
process.exit(0);

async function measure(master: string): Promise<void> {
  const python = await PoolBaseline.start(wheel.path, master, REGION_BYTES);
  const control = await PoolBaseline.start(wheel.path, master, REGION_BYTES);
  const node = new PoolNode(native, engineOptions(), REGION_BYTES);
  await node.opened();
  await touchPool(node, python);
  const ratios: number[] = [];
  for (const segments of SEGMENTS)
    for (const bytes of SEGMENT_BYTES)
      ratios.push(...(await transfers({ node, python, control }, segments, bytes)));
  const mean = Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length);
  report.ratio("pool-over-python-mean", mean, "least", 1);
  for (const { keys, bound } of LOOKUPS) await lookups(node, python, keys, bound);
  python.close();
  control.close();
  node.close();
}

/** Has the owner touch all of its memory once, so that neither pays for it. */
async function touchPool(node: PoolNode, python: PoolBaseline): Promise<void> {
  const bytes = 2 * MIB;
  const blocks = BATCH_BYTES / bytes;
  node.useShape({ segments: 1, bytes, blocks });
  // Below the share of the memory at which the master begins to evict.
  for (let used = 0; used + BATCH_BYTES <= POOL_BYTES * 0.9; used += BATCH_BYTES)
    await node.run(OPERATION_PUT, (used / BATCH_BYTES) * blocks, blocks, 0);
  await python.ask({ do: "clear" });
}

/** Ratios of save and load: Node's GB/s over Python's. */
async function transfers(
  { node, python, control }: { node: PoolNode; python: PoolBaseline; control: PoolBaseline },
  segments: number,
  bytes: number,
): Promise<number[]> {
  const value = segments * bytes;
  const fit = Math.min(BLOCKS_MAX, Math.floor(BUFFERS_MAX / segments));
  const blocks = Math.max(1, Math.min(fit, Math.floor(BATCH_BYTES / value)));
  const shape: PoolShape = { segments, bytes, blocks };
  node.useShape(shape);
  const calls = Math.max(1, Math.min(CALLS_MAX, Math.floor(PAIR_BYTES / (blocks * value))));
  const put = new Pairs();
  const get = new Pairs();
  for (let pair = -WARM_UP_PAIRS; pair < PAIRS; pair++) {
    for (let call = 0; call < calls; call++) {
      const row = call * blocks;
      const keysOf = (who: string): string[] =>
        Array.from({ length: blocks }, (_, block) => `${node.key(row + block)}-${who}`);
      const rival = async (who: "python" | "control", client: PoolBaseline): Promise<void> => {
        const request = { keys: keysOf(who), segments, bytes };
        put.add(who, await client.ask({ do: "put", ...request }));
        get.add(who, await client.ask({ do: "get", ...request }));
      };
      await inTurns(pair + call, [
        (): Promise<void> => rival("control", control),
        async (): Promise<void> => {
          put.add("node", await node.run(OPERATION_PUT, row, blocks, 0));
          get.add("node", await node.run(OPERATION_GET, row, blocks, value));
        },
        (): Promise<void> => rival("python", python),
      ]);
    }
    for (const pairs of [put, get]) pairs.end(pair >= 0);
    await python.ask({ do: "clear" });
  }
  const name = `${segments}x${bytes / 1024}KiB`;
  return Object.entries({ put, get }).map(([operation, pairs]) => {
    const rate = (calls * blocks * value) / median(pairs.nodeTimes);
    report.figure(`${operation} ${name}, ${blocks} blocks`, rate, "GB/s");
    report.figure(`Python over Python, ${operation} ${name}`, median(pairs.pythonOverControl), "");
    const ratio = median(pairs.pythonOverNode);
    report.ratio(`${operation}-over-python-${name}`, ratio, "least", 0.95);
    return ratio;
  });
}

async function lookups(
  node: PoolNode,
  python: PoolBaseline,
  count: number,
  bound: number,
): Promise<void> {
  node.useShape({ segments: 1, bytes: 4096, blocks: count });
  await node.run(OPERATION_PUT, 0, count, 0);
  const keys = Array.from({ length: count }, (_, row) => node.key(row));
  const pairs = new Pairs();
  for (let pair = -WARM_UP_PAIRS; pair < PAIRS; pair++) {
    for (let call = 0; call < LOOKUP_CALLS; call++) {
      await inTurns(pair + call, [
        async (): Promise<void> => pairs.add("node", await node.run(OPERATION_EXISTS, 0, count, 1)),
        async (): Promise<void> => pairs.add("python", await python.ask({ do: "exists", keys })),
      ]);
    }
    pairs.end(pair >= 0);
  }
  report.figure(`lookup of ${count} keys`, median(pairs.nodeTimes) / LOOKUP_CALLS / 1000, "us");
  const ratio = 1 / median(pairs.pythonOverNode);
  report.ratio(`lookup-over-call-${count}`, ratio, "most", bound);
  await python.ask({ do: "clear" });
}

/** As the product opens its store. */
function engineOptions(): MooncakeEngineOptions {
  return engineOptionsWith(
    { path: wheel.path, sharedLibrary: wheel.sharedLibrary ?? "" },
    { store: parseStoreConfig(pool.store), requesterLocalHostname: "127.0.0.1" },
    // Nor has the Python client checksums; what they cost: bench/pool-checks.bench.ts.
    {
      preferredSegment: null,
      enableGroupSemantics: false,
      storeTierLog: false,
      poolVerify: "off",
    },
  );
}
