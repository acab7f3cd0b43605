/**
 * The real pool through Node against the wheel's own Python client, called as vLLM calls it: the same master and owner, the same
 * run, pairs in turns, over TCP on loopback. Save and load for every shape of a block; lookups from hash rows to the decision
 * against the bare call.
 */
import { OPERATION_EXISTS, OPERATION_GET, OPERATION_PUT } from "../src/blocks/layout.ts";
import { loadNative } from "../src/native/load.ts";
import type { MooncakeEngineOptions } from "../src/native/binding.ts";
import { startPool } from "../src/pool/pool.ts";
import { requireWheel } from "../src/store/mooncake/interpreter.ts";
import { packageRoot } from "../src/worker-entry.ts";
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
const SEGMENTS = [1, 4, 16, 64];
const SEGMENT_BYTES = [4 * 1024, 64 * 1024, 512 * 1024, 2 * MIB];
const LOOKUPS = [
  { keys: 64, bound: 2 },
  { keys: 512, bound: 1.2 },
  { keys: 2048, bound: 1.2 },
];

const native = loadNative();
const report = new Report("pool");
const wheel = await requireWheel({
  python: process.env["MOONCAKE_PYTHON"] ?? null,
  workingFolder: packageRoot(),
  searchPath: process.env["PATH"] ?? "",
});
const pool = await startPool({
  mooncakeFolder: wheel.mooncakeFolder,
  port: 0,
  owners: 1,
  memoryBytes: 1024 * MIB,
  localBufferBytes: 64 * MIB,
  protocol: "tcp",
  deviceName: "",
  ssdFolder: null,
  logFolder: null,
});
try {
  await measure(pool.store.master_server_address);
} finally {
  await pool.stop();
}
report.close();
process.exit(0);

async function measure(master: string): Promise<void> {
  const python = await PoolBaseline.start(wheel.path, master, REGION_BYTES);
  const node = new PoolNode(native, engineOptions(master), REGION_BYTES);
  await node.opened();
  const ratios: number[] = [];
  for (const segments of SEGMENTS)
    for (const bytes of SEGMENT_BYTES)
      ratios.push(...(await transfers(node, python, segments, bytes)));
  const mean = Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length);
  report.ratio("pool-over-python-mean", mean, "least", 1);
  for (const { keys, bound } of LOOKUPS) await lookups(node, python, keys, bound);
  python.close();
  node.close();
}

/** Ratios of save and load: Node's GB/s over Python's. */
async function transfers(
  node: PoolNode,
  python: PoolBaseline,
  segments: number,
  bytes: number,
): Promise<number[]> {
  const value = segments * bytes;
  const fit = Math.min(BLOCKS_MAX, Math.floor(BUFFERS_MAX / segments));
  const blocks = Math.max(1, Math.min(fit, Math.floor(BATCH_BYTES / value)));
  const shape: PoolShape = { segments, bytes, blocks };
  node.useShape(shape);
  const times = { put: pair(), get: pair() };
  for (let round = -WARM_UP_PAIRS; round < PAIRS; round++) {
    const keys = Array.from({ length: blocks }, (_, block) => `${node.key(block)}-python`);
    const request = { keys, segments, bytes };
    // Who goes first changes, so that neither always meets the colder caches.
    const turns = [
      async (): Promise<void> => {
        const put = await node.run(OPERATION_PUT, 0, blocks, 0);
        const get = await node.run(OPERATION_GET, 0, blocks, value);
        if (round >= 0) keep(times, "node", put, get);
      },
      async (): Promise<void> => {
        const put = await python.ask({ do: "put", ...request });
        const get = await python.ask({ do: "get", ...request });
        if (round >= 0) keep(times, "python", put, get);
      },
    ];
    for (const turn of round % 2 === 0 ? turns : turns.toReversed()) await turn();
    await python.ask({ do: "clear" });
  }
  const name = `${segments}x${bytes / 1024}KiB`;
  return (["put", "get"] as const).map((operation) => {
    const { node: ours, python: theirs } = times[operation];
    const rate = (blocks * value) / median(ours);
    report.figure(`${operation} ${name}, ${blocks} blocks`, rate, "GB/s");
    const ratio = median(theirs) / median(ours);
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
  const times = pair();
  for (let round = -3; round < 5 * PAIRS; round++) {
    const ours = await node.run(OPERATION_EXISTS, 0, count, 1);
    const theirs = await python.ask({ do: "exists", keys });
    if (round < 0) continue;
    times.node.push(ours);
    times.python.push(theirs);
  }
  report.figure(`lookup of ${count} keys`, median(times.node) / 1000, "us");
  report.ratio(
    `lookup-over-call-${count}`,
    median(times.node) / median(times.python),
    "most",
    bound,
  );
  await python.ask({ do: "clear" });
}

interface Pair {
  readonly node: number[];
  readonly python: number[];
}
function pair(): Pair {
  return { node: [], python: [] };
}
function keep(times: { put: Pair; get: Pair }, who: keyof Pair, put: number, get: number): void {
  times.put[who].push(put);
  times.get[who].push(get);
}

function engineOptions(masterServerAddress: string): MooncakeEngineOptions {
  return {
    kind: "mooncake",
    pythonExecutable: wheel.path,
    pythonLibrary: wheel.sharedLibrary ?? "",
    localHostname: "127.0.0.1",
    metadataServer: "P2PHANDSHAKE",
    globalSegmentBytes: 0,
    localBufferBytes: 64 * MIB,
    protocol: "tcp",
    deviceName: "",
    masterServerAddress,
    preferredSegment: "",
    tenantId: "default",
    enableOffload: false,
    groupSemantics: false,
    reportTiers: false,
    keysPerCallMax: 0,
    bytesPerCallMax: 0,
    transferQueueMax: 0,
    logPath: "",
    existsThreads: 2,
    getThreads: 4,
    putThreads: 4,
  };
}
