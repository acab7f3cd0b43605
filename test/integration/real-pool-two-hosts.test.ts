/**
 * Goal: hosts share a pool over their network: what a request on one has saved is loaded on the other, byte for byte, whichever
 * of them holds the memory.
 * Method: two network namespaces with a wire between them, made and removed here (needs root); the master on the first, an owner
 * and a serving loop on each, over TCP. Nothing else connects them, and the wire's own counter shows that the bytes crossed it.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ManagedProcess } from "../../src/pool/managed-process.ts";
import { executable } from "../../src/pool/master.ts";
import type { StoreJson } from "../../src/pool/pool.ts";
import { testWheel } from "./support/mooncake-wheel.ts";
import { makeNetworkHosts } from "./support/network-hosts.ts";
import type { NetworkHost, NetworkHosts } from "./support/network-hosts.ts";
import { writeStore } from "./support/real-pool.ts";
import { LOOP_BLOCK, LOOP_LAYER_BYTES, PoolLoop } from "./support/real-pool-process.ts";

const MIB = 1 << 20;
/** The hosts are new: every port is free there. */
const [MASTER_PORT, METRICS_PORT, SERVICE_PORT, SEGMENT_PORT] = [50051, 9003, 50052, 50053];
const LAYERS = 2;
const BLOCKS = 24;
const START_TIMEOUT_MS = 60_000;

let folder: string;
let network: NetworkHosts;
const processes: ManagedProcess[] = [];
const loops: PoolLoop[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "real-pool-two-hosts-"));
  network = makeNetworkHosts();
  const [first] = network.hosts;
  await startOn(first, "mooncake_master", "service_ready=true", [
    `--rpc_address=${first.address}`,
    `--metrics_host=${first.address}`,
    `--rpc_port=${MASTER_PORT}`,
    `--metrics_port=${METRICS_PORT}`,
  ]);
  const store: StoreJson = {
    mode: "standalone-store",
    metadata_server: "P2PHANDSHAKE",
    master_server_address: `${first.address}:${MASTER_PORT}`,
    global_segment_size: 0,
    local_buffer_size: 16 * MIB,
    protocol: "tcp",
    device_name: "",
    enable_offload: false,
  };
  const storePath = writeStore(folder, store);
  for (const host of network.hosts) {
    await startOn(host, "mooncake_client", "real client service", [
      `--host=${segmentOf(host)}`,
      `--port=${SERVICE_PORT}`,
      `--master_server_address=${store.master_server_address}`,
      "--metadata_server=P2PHANDSHAKE",
      "--protocol=tcp",
      `--global_segment_size=${64 * MIB}`,
    ]);
    // No requester name is given: each finds the address under which the other reaches it.
    const environment = { MOONCAKE_PREFERRED_SEGMENT: segmentOf(host) };
    const options = { storePath, blockCount: 64, layers: LAYERS, environment };
    loops.push(await PoolLoop.start({ ...options, within: host.within }));
  }
});
afterAll(async () => {
  for (const loop of loops) await loop.kill();
  for (const each of processes.toReversed()) await each.stop();
  network?.remove();
  rmSync(folder, { recursive: true });
});

const segmentOf = ({ address }: NetworkHost): string => `${address}:${SEGMENT_PORT}`;

/** Starts a program of the wheel on a host, and waits until it has written `ready`. */
async function startOn(
  host: NetworkHost,
  name: string,
  ready: string,
  args: readonly string[],
): Promise<void> {
  const { mooncakeFolder } = await testWheel();
  const [program = "", ...before] = host.within;
  const started = await ManagedProcess.start({
    name: `${name} on ${host.name}`,
    program,
    args: [...before, executable(mooncakeFolder, name), ...args],
    logPath: null,
  });
  processes.push(started);
  await started.waitUntilReady(
    async () => started.output.includes(ready),
    START_TIMEOUT_MS,
    "See what it wrote.",
  );
}

test("what one host saves the other loads, byte for byte, over the wire", async () => {
  const [first, second] = loops;
  if (first === undefined || second === undefined) throw new Error("two loops are started");
  const prompt = { blocks: BLOCKS };
  const whole = BLOCKS * LOOP_BLOCK;
  const bytes = BLOCKS * LAYERS * LOOP_LAYER_BYTES;
  const directions = [
    [first, second, network.hosts[1], 1],
    [second, first, network.hosts[0], 2],
  ] as const;
  for (const [writer, reader, host, seed] of directions) {
    expect(await writer.request({ ...prompt, seed })).toMatchObject({ found: 0, outcome: "MISS" });
    expect(await writer.find({ ...prompt, seed })).toBe(whole);
    const before = host.receivedBytes();
    const hit = { found: whole, kept: whole, differing: 0, outcome: "HIT" };
    expect(await reader.request({ ...prompt, seed })).toEqual(hit);
    expect(host.receivedBytes() - before).toBeGreaterThan(bytes);
    // Its own is near: hardly anything crosses the wire.
    const own = host.receivedBytes();
    expect(await writer.request({ ...prompt, seed })).toEqual(hit);
    expect(host.receivedBytes() - own).toBeLessThan(bytes / 4);
  }
  for (const loop of loops) expect(await loop.stop()).toBe(0);
});
