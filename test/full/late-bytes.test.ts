/**
 * Goal: what an owner sends after the wheel has given the transfer up, 60 s later, reaches no block that the engine has given back.
 * Method: the owner of a value is stopped while it is read, with the wheel's own limit for a silent peer set above its limit for a
 * transfer, as a peer would meet it that is slow and not silent. When the read has been answered the block gets other bytes, and the
 * owner goes on. In this process and in a child.
 */
import { afterEach, expect, test } from "vitest";
import { setTimeout as sleep } from "node:timers/promises";
import type { ChildEngineOptions, MooncakeEngineOptions } from "../../src/native/binding.ts";
import { engineProgram } from "../../src/native/load.ts";
import { freePort } from "../../src/pool/ports.ts";
import { EngineCode } from "../../src/store/engine.ts";
import {
  engineOptions,
  MooncakeWorld,
  PythonClient,
  wheel,
} from "../integration/support/mooncake.ts";
import { startTestMaster } from "../integration/support/mooncake-wheel.ts";

const MIB = 1 << 20;
/** Travels as it lies: nothing of it is gathered. */
const SHAPES = [{ segments: 1, segmentBytes: 4 * MIB }];
const WHEEL_LIMIT_MS = 60_000;
/** For the owner's bytes to come over loopback. */
const LATE_BYTES_MS = 3_000;
const TEST_TIMEOUT_MS = 240_000;

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).toReversed()) await end();
});

const inChild = (inner: MooncakeEngineOptions): ChildEngineOptions => ({
  kind: "child",
  executable: engineProgram(),
  arguments: [],
  inner,
  existsThreads: 2,
  getThreads: 2,
  putThreads: 2,
});

test.each([
  { process: "this process", options: (inner: MooncakeEngineOptions) => inner },
  { process: "a child", options: inChild },
])(
  "an owner that goes on after a minute, read by $process",
  async ({ options }) => {
    for (const limit of ["MC_TCP_PROGRESS_TIMEOUT_SEC", "MC_TCP_STATUS_TIMEOUT_SEC"])
      process.env[limit] = "120";
    const port = await freePort();
    const master = await startTestMaster({ mooncakeFolder: wheel.mooncakeFolder, port });
    endings.push(() => master.process.stop());
    const address = `127.0.0.1:${port}`;
    const owner = await PythonClient.start(address, 64 * MIB);
    endings.push(() => owner.kill());
    const world = new MooncakeWorld(options(engineOptions(address)), {
      shapes: SHAPES,
      blockCount: 4,
    });
    endings.push(() => world.close());
    await world.until("open");
    const value = world.fill(0, 0, 1);
    expect(await world.put([[0, 1]])).toEqual([value.length]);
    const before = world.fill(0, 1, 2);

    owner.signal("SIGSTOP");
    const beginMs = performance.now();
    const [result = 0] = await world.get([[1, 1]]);
    const tookMs = performance.now() - beginMs;
    expect([EngineCode.ENGINE_ERROR, EngineCode.ENGINE_DOWN]).toContain(result);
    expect(tookMs).toBeGreaterThan(WHEEL_LIMIT_MS - 1_000);
    expect(Buffer.compare(world.read(0, 1), before)).toBe(0);

    const next = world.fill(0, 1, 3);
    owner.signal("SIGCONT");
    await sleep(LATE_BYTES_MS);
    expect(Buffer.compare(world.read(0, 1), next)).toBe(0);

    // The next store serves.
    const { reopenings } = await world.until("open", TEST_TIMEOUT_MS);
    expect(reopenings).toBeGreaterThan(0);
    await expect
      .poll(() => world.put([[0, 5]]), { timeout: 60_000, interval: 100 })
      .toEqual([value.length]);
    expect(await world.get([[2, 5]])).toEqual([value.length]);
    expect(Buffer.compare(world.read(0, 2), value)).toBe(0);
  },
  TEST_TIMEOUT_MS,
);
