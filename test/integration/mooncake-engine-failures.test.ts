/**
 * Goal: a master that is absent, dies or hangs, and an owner that dies, never hold up the caller: batches are answered with
 * ENGINE_DOWN or a failure of their own, and the engine finds back by itself.
 * Method: a real master and owner killed, stopped and started again at the same port while an engine in this process uses them.
 * Times are only bounds that a hang would break.
 */
import { afterEach, expect, test } from "vitest";
import { setTimeout as sleep } from "node:timers/promises";
import type { RunningMaster } from "../../src/pool/master.ts";
import { freePort } from "../../src/pool/ports.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { engineOptions, MooncakeWorld, PythonClient, wheel } from "./support/mooncake.ts";
import { startTestMaster } from "./support/mooncake-wheel.ts";

const MIB = 1 << 20;
const SHAPES = [{ segments: 4, segmentBytes: 4096 }];
const DOWN_WITHIN_MS = 30_000;

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).toReversed()) await end();
});

async function masterAt(port: number): Promise<RunningMaster> {
  const master = await startTestMaster({ mooncakeFolder: wheel.mooncakeFolder, port });
  endings.push(() => {
    master.process.kill("SIGCONT");
    return master.process.stop();
  });
  return master;
}
function worldAt(port: number, globalSegmentBytes = 0): MooncakeWorld {
  const options = engineOptions(`127.0.0.1:${port}`, { globalSegmentBytes });
  const world = new MooncakeWorld(options, { shapes: SHAPES, blockCount: 8 });
  endings.push(() => world.close());
  return world;
}
async function roundTrip(world: MooncakeWorld, row: number): Promise<void> {
  const value = world.fill(0, 1, row);
  expect(await world.put([[1, row]])).toEqual([value.length]);
  expect(await world.get([[2, row]])).toEqual([value.length]);
  expect(Buffer.compare(world.read(0, 2), value)).toBe(0);
}

test("the master is absent at start: open returns at once, batches say ENGINE_DOWN, and it joins when the master comes", async () => {
  const port = await freePort();
  const beginMs = performance.now();
  const world = worldAt(port);
  expect(performance.now() - beginMs).toBeLessThan(2_000);
  expect(await world.exists([1])).toEqual([EngineCode.ENGINE_DOWN]);
  const { error } = await world.until("down");
  expect(error).toMatchObject({ code: "UNREACHABLE", field: "master_server_address" });
  expect(error?.problem).toContain("does not answer");
  expect(error?.remedy).toContain("mooncake_master");
  expect(await world.put([[0, 1]])).toEqual([EngineCode.ENGINE_DOWN]);

  await masterAt(port);
  await world.until("open");
  // Nobody gives memory yet: no room is not an outage.
  expect(await world.put([[0, 1]])).toEqual([EngineCode.NO_AVAILABLE_HANDLE]);
  const owner = await PythonClient.start(`127.0.0.1:${port}`, 16 * MIB);
  endings.push(() => owner.kill());
  await roundTrip(world, 2);
  expect(world.state.reopenings).toBe(0);
});

test("the master is killed and comes back at the same port: down meanwhile, then the same store goes on, its own memory with it", async () => {
  const port = await freePort();
  const first = await masterAt(port);
  const world = worldAt(port, 16 * MIB);
  await world.until("open");
  await roundTrip(world, 10);

  first.process.kill("SIGKILL");
  await first.process.ended;
  // Whoever asks first finds out; without anybody asking the engine does so too.
  await world.until("down", DOWN_WITHIN_MS);
  const beginMs = performance.now();
  expect(await world.exists([10])).toEqual([EngineCode.ENGINE_DOWN]);
  expect(await world.get([[3, 10]])).toEqual([EngineCode.ENGINE_DOWN]);
  expect(performance.now() - beginMs).toBeLessThan(1_000);

  await masterAt(port);
  const { reopenings } = await world.until("open");
  expect(reopenings).toBe(1);
  // The new master knows no keys, and the memory of this member serves it.
  expect(await world.exists([10])).toEqual([0]);
  await roundTrip(world, 11);
});

test("the master hangs: nobody waits for it longer than its time limit, and it may go on", async () => {
  const port = await freePort();
  const master = await masterAt(port);
  const world = worldAt(port, 16 * MIB);
  await world.until("open");
  await roundTrip(world, 20);
  master.process.kill("SIGSTOP");
  const beginMs = performance.now();
  expect(await world.exists([20])).toEqual([EngineCode.ENGINE_DOWN]);
  expect(performance.now() - beginMs).toBeLessThan(DOWN_WITHIN_MS);
  await world.until("down", DOWN_WITHIN_MS);
  master.process.kill("SIGCONT");
  await world.until("open");
  await roundTrip(world, 21);
});

test("an owner is killed: its values fail by themselves, the engine stays open, and a new owner serves", async () => {
  const port = await freePort();
  await masterAt(port);
  const address = `127.0.0.1:${port}`;
  const owner = await PythonClient.start(address, 16 * MIB);
  endings.push(() => owner.kill());
  const world = worldAt(port);
  await world.until("open");
  await roundTrip(world, 30);
  const before = world.fill(0, 5, 999);
  await owner.kill();

  expect(await world.get([[4, 30]])).toEqual([EngineCode.ENGINE_ERROR]);
  expect(Buffer.compare(world.read(0, 5), before)).toBe(0);
  const [put = 0] = await world.put([[0, 31]]);
  expect([EngineCode.ENGINE_ERROR, EngineCode.NO_AVAILABLE_HANDLE]).toContain(put);
  expect(world.state).toMatchObject({ state: "open", reopenings: 0 });

  const next = await PythonClient.start(address, 16 * MIB);
  endings.push(() => next.kill());
  // The master takes up to 10 s to see that the first owner is dead, and offers its memory meanwhile.
  for (let row = 40; ; row++) {
    const [result] = await world.put([[0, row]]);
    if (result === world.valueBytes(0)) break;
    expect(row).toBeLessThan(400);
    await sleep(100);
  }
});
