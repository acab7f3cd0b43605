/**
 * Goal: save, lookup and load run over real RDMA verbs, and a request whose owner dies in the middle of a read goes on long
 * before the engine gives its blocks back.
 * Method: the whole scenario (save-and-load.mjs) runs in a virtual machine with a software RDMA device (vm/README.md); the test
 * reads what it printed. One start of the machine, because it is most of the time.
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, test } from "vitest";

const DEVICE = "rxe0";
/** Most of it is the read of the dead owner, which comes back after a minute or two. */
const RUN_SECONDS = 280;
/** The first start on a machine fetches packages and a kernel. */
const SET_UP_SECONDS = 300;
const PROMPT_TOKENS = 128;
const BLOCK_TOKENS = 16;
const BLOCK_BYTES = 65_536;
/** A hit on the whole prompt leaves the last block to be computed. */
const FOUND = PROMPT_TOKENS - BLOCK_TOKENS;
const WHOLE = { found: FOUND, kept: FOUND, outcome: "HIT", equal: true };

interface Shared {
  readonly found: number;
  readonly kept: number;
  readonly outcome: string;
  readonly equal: boolean;
}
interface Report {
  readonly loaded: Shared;
  readonly intoOwn: Shared;
  readonly outOfOwn: Shared;
  readonly lost: {
    readonly found: number;
    readonly kept: number;
    readonly milliseconds: number;
    readonly computedInOtherBlocks: boolean;
  };
  readonly pinned: { atOnce: number; afterwards: number; atLast: number };
  readonly heldMilliseconds: number;
  readonly packets: number;
  readonly loadTimeoutMs: number;
}

let report: Report;

beforeAll(
  async () => {
    report = await runInVirtualMachine();
  },
  (RUN_SECONDS + SET_UP_SECONDS) * 1000,
);

test("a prefix that one connector saved is loaded by another, byte for byte, over verbs", () => {
  expect(report.loaded).toEqual(WHOLE);
  // Four prefixes of eight blocks were saved and three were read: that many bytes cannot cross in fewer packets of 4 KiB.
  expect(report.packets).toBeGreaterThan((7 * 7 * BLOCK_BYTES) / 4096);
});

test("so are those of a serving loop with KV memory of its own", () => {
  expect(report.intoOwn).toEqual(WHOLE);
  expect(report.outOfOwn).toEqual(WHOLE);
});

test("a request whose owner was killed computes, long before the engine's read returns", () => {
  const { lost, loadTimeoutMs } = report;
  expect(lost.found).toBe(FOUND);
  expect(lost.kept).toBe(0);
  expect(lost.computedInOtherBlocks).toBe(true);
  // Bounded by two load timeouts; the wide margin is the emulated machine's.
  expect(lost.milliseconds).toBeLessThan(10 * loadTimeoutMs);
});

test("its blocks stay quarantined until the engine's call returns, and not longer", () => {
  const { pinned, lost, heldMilliseconds } = report;
  expect(pinned.atOnce).toBeGreaterThanOrEqual(lost.found / BLOCK_TOKENS);
  expect(pinned.atLast).toBe(0);
  expect(heldMilliseconds).toBeGreaterThan(lost.milliseconds);
});

async function runInVirtualMachine(): Promise<Report> {
  const file = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
  const child = spawn(
    file("vm/rdma-vm"),
    ["run", "--env", "MC_WORKERS_PER_CTX=1", "--timeout", String(RUN_SECONDS), "--"].concat([
      process.execPath,
      file("save-and-load.mjs"),
      "rdma",
      DEVICE,
    ]),
    { cwd: file("../.."), stdio: ["ignore", "pipe", "pipe"] },
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (bytes: Buffer) => (output += bytes.toString()));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  const line = output.split("\n").find((each) => each.startsWith('{"loaded"'));
  if (code !== 0 || line === undefined)
    throw new Error(`the virtual machine ended with ${code}:\n${output.slice(-4000)}`);
  return JSON.parse(line) as Report;
}
