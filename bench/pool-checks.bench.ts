/**
 * What checks of pool values cost, in pairs of one run over TCP on loopback: gets that see whether something was removed under them
 * against gets that do not; puts that keep checksums and gets that verify them (`pool_verify`) against those that do neither. Three
 * members of this process, the same master and owner.
 */
import { OPERATION_GET, OPERATION_PUT, OPERATION_REMOVE_ALL } from "../src/blocks/layout.ts";
import { parseStoreConfig } from "../src/config/store-config.ts";
import { loadNative } from "../src/native/load.ts";
import type { MooncakeEngineOptions } from "../src/native/binding.ts";
import { engineOptionsWith } from "../src/store/mooncake/engine-options.ts";
import { startBenchPool } from "./lib/bench-pool.ts";
import { inTurns } from "./lib/pairs.ts";
import { PoolNode } from "./lib/pool-node.ts";
import { median, Report } from "./lib/report.ts";

const MIB = 2 ** 20;
const REGION_BYTES = 64 * MIB;
const SHAPES = [
  { segments: 1, bytes: 4096, blocks: 32 },
  { segments: 64, bytes: 4096, blocks: 16 },
  { segments: 4, bytes: 64 * 1024, blocks: 32 },
  { segments: 1, bytes: 2 * MIB, blocks: 16 },
  { segments: 64, bytes: 64 * 1024, blocks: 4 },
];
const MEMBERS = {
  unchecked: { verify: "off", checkRemovals: false },
  off: { verify: "off", checkRemovals: true },
  verified: { verify: "when_present", checkRemovals: true },
} as const;
type Member = keyof typeof MEMBERS;
const NAMES = ["unchecked", "off", "verified"] as const satisfies readonly Member[];
const PAIRS = 15;
const CALLS = 6;

const native = loadNative();
const report = new Report("pool-checks");
const { wheel, pool } = await startBenchPool();
try {
  const members = {} as Record<Member, PoolNode>;
  for (const name of NAMES) {
    members[name] = new PoolNode(native, engineOptions(name), REGION_BYTES);
    await members[name].opened();
  }
  for (const shape of SHAPES) await measure(members, shape);
  for (const name of NAMES) members[name].close();
} finally {
  await pool.stop();
}
report.close();
process.exit(0);

async function measure(
  members: Readonly<Record<Member, PoolNode>>,
  shape: (typeof SHAPES)[number],
): Promise<void> {
  const { segments, bytes, blocks } = shape;
  const value = segments * bytes;
  const times = { put: newTimes(), get: newTimes() };
  for (const name of NAMES) members[name].useShape(shape);
  for (let pair = -1; pair < PAIRS; pair++) {
    const now = { put: newSums(), get: newSums() };
    for (let call = 0; call < CALLS; call++)
      await inTurns(
        pair + call,
        NAMES.map((name) => async (): Promise<void> => {
          const member = members[name];
          now.put[name] += await member.run(OPERATION_PUT, 0, blocks, 0);
          // What a load meets is warm by its lookup.
          now.get[name] += await member.run(OPERATION_GET, 0, blocks, value);
          await member.run(OPERATION_REMOVE_ALL, 0, 0, 0);
        }),
      );
    if (pair < 0) continue;
    for (const operation of ["put", "get"] as const)
      for (const name of NAMES) times[operation][name].push(now[operation][name] / CALLS);
  }
  const name = `${blocks}x${segments}x${bytes / 1024}KiB`;
  for (const operation of ["put", "get"] as const)
    report.figure(`${operation} ${name}, off`, median(times[operation].off) / 1000, "us");
  report.ratio(`removal-check-get-${name}`, over(times.get, "off", "unchecked"), "most", 1.1);
  report.ratio(`verify-put-${name}`, over(times.put, "verified", "off"), "most", 1.1);
  report.ratio(`verify-get-${name}`, over(times.get, "verified", "off"), "most", 1.1);
}

/** Median over the pairs. */
function over(times: Readonly<Record<Member, number[]>>, one: Member, other: Member): number {
  return median(times[one].map((time, pair) => time / times[other][pair]!));
}
function newTimes(): Record<Member, number[]> {
  return { unchecked: [], off: [], verified: [] };
}
function newSums(): Record<Member, number> {
  return { unchecked: 0, off: 0, verified: 0 };
}

function engineOptions(name: Member): MooncakeEngineOptions {
  const options = engineOptionsWith(
    { path: wheel.path, sharedLibrary: wheel.sharedLibrary ?? "" },
    { store: parseStoreConfig(pool.store), requesterLocalHostname: "127.0.0.1" },
    { preferredSegment: null, enableGroupSemantics: false, storeTierLog: false },
  );
  return { ...options, ...MEMBERS[name] };
}
