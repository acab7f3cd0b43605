/**
 * Goal: Mooncake's engine in a child process stores and loads through the same KV memory as the one in this process, and its violent
 * death costs the calls that were in it: the pool's values are there for the next child.
 * Method: a real master and an owner outside; the child is killed by its pid, the master is killed and started again.
 */
import { afterEach, expect, test } from "vitest";
import * as layout from "../../src/blocks/layout.ts";
import type { ChildEngineOptions } from "../../src/native/binding.ts";
import { engineProgram } from "../../src/native/load.ts";
import type { RunningMaster } from "../../src/pool/master.ts";
import { freePort } from "../../src/pool/ports.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { engineChild, engineChildren } from "./support/engine-child.ts";
import { engineOptions, MooncakeWorld, native, PythonClient, wheel } from "./support/mooncake.ts";
import { startTestMaster } from "./support/mooncake-wheel.ts";

const MIB = 1 << 20;
const SHAPES = [{ segments: 4, segmentBytes: 4096 }];

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).toReversed()) await end();
  expect(engineChildren()).toEqual([]);
});

async function masterAt(port: number): Promise<RunningMaster> {
  const master = await startTestMaster({ mooncakeFolder: wheel.mooncakeFolder, port });
  endings.push(() => master.process.stop());
  return master;
}

function childOptions(port: number): ChildEngineOptions {
  const lanes = { existsThreads: 2, getThreads: 2, putThreads: 2 };
  const inner = engineOptions(`127.0.0.1:${port}`, {});
  return { kind: "child", executable: engineProgram(), arguments: [], inner, ...lanes };
}

function worldAt(port: number): MooncakeWorld {
  const world = new MooncakeWorld(childOptions(port), { shapes: SHAPES, blockCount: 8 });
  endings.push(() => world.close());
  return world;
}

async function loaded(world: MooncakeWorld, block: number, row: number, value: Uint8Array) {
  expect(await world.get([[block, row]])).toEqual([value.length]);
  expect(Buffer.compare(world.read(0, block), value)).toBe(0);
}

test("values outlive the child that stored them; its log comes to this process", async () => {
  const port = await freePort();
  await masterAt(port);
  const owner = await PythonClient.start(`127.0.0.1:${port}`, 16 * MIB);
  endings.push(() => owner.kill());
  const world = worldAt(port);
  await world.until("open");
  const value = world.fill(0, 1, 7);
  expect(await world.put([[1, 7]])).toEqual([value.length]);
  await loaded(world, 2, 7, value);
  expect(native.wheelLogTake(1000).some(({ source }) => /\.(cpp|h|cc):\d+$/.test(source))).toBe(
    true,
  );

  let pid = await engineChild();
  for (let death = 0; death < 3; death++) {
    world.actor.submit(0, layout.OPERATION_GET, [[3, 7]]);
    world.actor.submit(1, layout.OPERATION_EXISTS, [[layout.NONE, 7]]);
    world.actor.submit(2, layout.OPERATION_PUT, [[1, 20 + death]]);
    process.kill(pid, "SIGKILL");
    const completed = new Set<number>();
    for (let taken = 0; taken < 3; taken++) {
      const { slot, status } = await world.actor.take();
      expect([EngineCode.OK, EngineCode.ENGINE_DOWN]).toContain(status);
      completed.add(slot);
    }
    expect(completed.size).toBe(3);
    pid = await engineChild(pid);
    await expect.poll(() => world.state.state, { timeout: 120_000 }).toBe("open");
    await loaded(world, 4, 7, value);
  }
  expect(world.state.reopenings).toBe(3);
});

test("a master that dies takes the child along, and the next child finds it again", async () => {
  const port = await freePort();
  const first = await masterAt(port);
  const world = worldAt(port);
  await world.until("open");
  const pid = await engineChild();
  first.process.kill("SIGKILL");
  const asked = async (): Promise<number[]> => await world.exists([1]);
  await expect.poll(asked, { timeout: 120_000 }).toEqual([EngineCode.ENGINE_DOWN]);
  await world.until("down");
  await expect.poll(() => engineChildren().includes(pid), { timeout: 120_000 }).toBe(false);
  expect(await world.exists([1])).toEqual([EngineCode.ENGINE_DOWN]);
  await masterAt(port);
  await world.until("open");
  expect(await world.exists([1])).toEqual([0]);
});
