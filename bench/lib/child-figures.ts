import { setTimeout } from "node:timers/promises";
import {
  NONE,
  OPERATION_EXISTS,
  OPERATION_GET,
  OPERATION_PUT,
  OPERATION_REMOVE,
} from "../../src/blocks/layout.ts";
import type { NativeBinding } from "../../src/native/binding.ts";
import { engineProgram } from "../../src/native/load.ts";
import {
  BLOCK_BYTES,
  BLOCKS,
  KEYS_PER_BATCH,
  localPool,
  openWorld,
  type World,
} from "./engine-figures.ts";
import { median, type Report } from "./report.ts";

const ROUNDS = 9;
const WARM_UP_ROUNDS = 2;
const TIMED = ["put", "get", "exists"] as const;
type Times = Record<(typeof TIMED)[number], number[]>;

/**
 * The local engine in this process against the same one in a child, in turns, over the same batches. Put and get move the bytes
 * between the same memory either way; what differs is the message to the child and back, which `exists` consists of.
 */
export async function measureChild(native: NativeBinding, report: Report): Promise<void> {
  const inProcess = openWorld(native, { ...localPool(), poolName: `bench-rival-${process.pid}` });
  const child = openWorld(native, {
    kind: "child",
    executable: engineProgram(),
    arguments: [],
    inner: localPool(),
    existsThreads: 1,
    getThreads: 1,
    putThreads: 1,
  });
  while (native.engineState(child.engineId).state !== "open") await setTimeout(1);
  const [ours, theirs]: [Times, Times] = [noTimes(), noTimes()];
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round++) {
    const timed = round >= WARM_UP_ROUNDS;
    await oneRound(inProcess, timed ? ours : noTimes());
    await oneRound(child, timed ? theirs : noTimes());
  }
  child.close();
  inProcess.close();
  const rate = ({ put, get }: Times, name: "put" | "get"): number =>
    (BLOCKS * BLOCK_BYTES) / median({ put, get }[name]);
  const batchUs = ({ exists }: Times): number =>
    (median(exists) / 1000) * (KEYS_PER_BATCH / BLOCKS);
  report.figure("put into an engine in a child process", rate(theirs, "put"), "GB/s");
  report.figure("get from an engine in a child process", rate(theirs, "get"), "GB/s");
  report.figure("exists of 64 keys, in process", batchUs(ours), "us a batch");
  report.figure("exists of 64 keys, child process", batchUs(theirs), "us a batch");
  report.ratio("child-put-over-in-process", rate(theirs, "put") / rate(ours, "put"), "least", 0.9);
  report.ratio("child-get-over-in-process", rate(theirs, "get") / rate(ours, "get"), "least", 0.9);
}

/** All blocks in, asked for and out again; the values' memory goes back to the pool. */
async function oneRound(world: World, times: Times): Promise<void> {
  times.put.push(await world.run(OPERATION_PUT, 0, BLOCK_BYTES));
  times.exists.push(await world.run(OPERATION_EXISTS, NONE, 1));
  times.get.push(await world.run(OPERATION_GET, 0, BLOCK_BYTES));
  await world.run(OPERATION_REMOVE, NONE, 0);
}

function noTimes(): Times {
  return { put: [], get: [], exists: [] };
}
