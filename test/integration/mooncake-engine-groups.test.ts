/**
 * Goal: with enable_group_semantics Mooncake keeps the values of one chunk together, those of vLLM's ranks with ours, and without it
 * each value is alone; in this process and in a child.
 * Method: a real master, of which it is known that a lookup leases all members of the key's group: whether a removal that is not
 * forced finds a neighbour leased tells whether they are in one group. The wheel's Python client names vLLM's group. An older
 * wheel is this one without the attribute, in an interpreter of its own.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import * as layout from "../../src/blocks/layout.ts";
import { poolKey } from "../../src/keys/pool-keys.ts";
import { engineProgram } from "../../src/native/load.ts";
import type { RunningMaster } from "../../src/pool/master.ts";
import { EngineCalls } from "../../src/store/engine-calls.ts";
import { packageRoot } from "../../src/worker-entry.ts";
import { startChild } from "./support/child.ts";
import { engineOptions, MooncakeWorld, native, PythonClient, wheel } from "./support/mooncake.ts";
import { startTestMaster } from "./support/mooncake-wheel.ts";

const MIB = 1 << 20;
const TIMEOUT_MS = 10_000;
const STEM = "prefix@model";
const prefixOf = (rank: number): string =>
  `${STEM}@tp_rank:${rank}@pcp0@dcp0@pp_rank:0@group:${rank}`;

let master: RunningMaster;
let python: PythonClient;
let row = 0;

beforeAll(async () => {
  master = await startTestMaster({ mooncakeFolder: wheel.mooncakeFolder });
  python = await PythonClient.start(`127.0.0.1:${master.port}`, 64 * MIB);
});
afterAll(async () => {
  await python.kill();
  await master.process.stop();
});

async function withRank(
  rank: number,
  { groupSemantics, child }: { groupSemantics: boolean; child: boolean },
  run: (world: MooncakeWorld, calls: EngineCalls) => Promise<void>,
): Promise<void> {
  const inner = engineOptions(`127.0.0.1:${master.port}`, { groupSemantics, keysPerCallMax: 7 });
  const lanes = { existsThreads: 1, getThreads: 1, putThreads: 2 };
  const world = new MooncakeWorld(
    child ? { kind: "child", executable: engineProgram(), arguments: [], inner, ...lanes } : inner,
    { shapes: [{ segments: 2, segmentBytes: 4096 }], blockCount: 8, prefix: prefixOf(rank) },
  );
  try {
    await world.until("open");
    await run(world, new EngineCalls({ native, engineId: world.engineId }));
  } finally {
    expect(world.close()).toBe(0);
  }
}

test.each([
  { groupSemantics: true, child: false },
  { groupSemantics: true, child: true },
  { groupSemantics: false, child: false },
])("a chunk's values of two ranks, one of them vLLM's: %j", async (how) => {
  await withRank(0, how, async (world, calls) => {
    const rows = [++row, ++row];
    const [chunk = 0, other = 0] = rows;
    const value = world.fill(0, 0, row);
    world.fill(0, 1, row + 1);
    const hex = (of: number): string => world.key(of).slice(world.key(of).lastIndexOf("@") + 1);
    const neighbour = (of: number): string => poolKey(prefixOf(1), hex(of));
    // As vLLM writes it for its rank 1.
    const group = (of: number): string | null =>
      how.groupSemantics ? `vllm-mooncake-store:${STEM}@${hex(of)}` : null;
    for (const of of rows)
      expect(await python.put(neighbour(of), value, [8192], group(of))).toBe(0);
    expect(
      await world.put([
        [0, chunk],
        [1, other],
      ]),
    ).toEqual([8192, 8192]);

    expect(await world.exists([chunk])).toEqual([1]);
    const removed = await calls.removeKey(neighbour(chunk), TIMEOUT_MS);
    if (how.groupSemantics)
      expect(removed).toMatchObject({ ok: false, text: expect.stringContaining("leased") });
    else expect(removed).toEqual({ ok: true, value: true });
    // Nobody has asked for the other chunk.
    for (const key of [neighbour(other), world.key(other)])
      expect(await calls.removeKey(key, TIMEOUT_MS)).toEqual({ ok: true, value: true });
    expect(await world.get([[2, chunk]])).toEqual([8192]);
    expect(Buffer.compare(world.read(0, 2), value)).toBe(0);
  });
});

test("many keys in several calls at once, and single values that are no block's", async () => {
  await withRank(0, { groupSemantics: true, child: false }, async (world, calls) => {
    const rows = Array.from({ length: 64 }, () => ++row);
    rows.slice(0, 8).forEach((_, block) => world.fill(0, block, block));
    for (const half of [0, 1])
      world.actor.submit(
        half,
        layout.OPERATION_PUT,
        rows.slice(half * 32, half * 32 + 32).map((of, index) => [index % 8, of] as const),
      );
    const taken = [await world.actor.take(), await world.actor.take()];
    expect(taken.map(({ status }) => status)).toEqual([0, 0]);
    expect(await world.exists(rows)).toEqual(rows.map(() => 1));
    const name = "model@mooncake-kv-identity";
    expect(await calls.putValue(name, new Uint8Array([7]), TIMEOUT_MS)).toMatchObject({ ok: true });
    expect(await calls.getValue(name, TIMEOUT_MS)).toEqual({
      ok: true,
      value: new Uint8Array([7]),
    });
  });
});

test.each([false, true])(
  "a wheel without groups is warned of and used (child: %s)",
  async (child) => {
    const folder = mkdtempSync(join(tmpdir(), "mooncake-kv-groups-"));
    try {
      execFileSync(wheel.path, ["-m", "venv", "--without-pip", folder]);
      const pythonExecutable = join(folder, "bin", "python3");
      const ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
      const packages = execFileSync(pythonExecutable, ["-c", ask], { encoding: "utf8" }).trim();
      mkdirSync(join(packages, "mooncake"));
      writeFileSync(
        join(packages, "mooncake", "__init__.py"),
        `__path__[:] = [${JSON.stringify(wheel.mooncakeFolder)}]\nfrom mooncake import store\ndel store.ReplicateConfig.group_ids\n`,
      );
      const inner = engineOptions(`127.0.0.1:${master.port}`, {
        groupSemantics: true,
        pythonExecutable,
      });
      const lanes = { existsThreads: 1, getThreads: 1, putThreads: 1 };
      const options = child
        ? { kind: "child", executable: engineProgram(), arguments: [], inner, ...lanes }
        : inner;
      const script = join(packageRoot(), "test/integration/support/mooncake-open.mjs");
      const opened = startChild(process.execPath, [script, JSON.stringify(options)]);
      expect(await opened.exit, opened.errors()).toEqual({ code: 0, signal: null });
      const { state, lines } = JSON.parse(opened.output()) as {
        state: string;
        lines: { level: string; text: string }[];
      };
      expect(state).toBe("open");
      const told = lines.filter(({ text }) => text.includes("enable_group_semantics"));
      expect(told).toHaveLength(1);
      expect(told[0]).toMatchObject({
        level: "warn",
        text: expect.stringContaining("pip install"),
      });
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);
