import { fail } from "../../errors.ts";
import { livingPools, poolsFolder, stopRecordedPool } from "../../pool/state.ts";
import type { PoolRecord } from "../../pool/state.ts";

interface StopFlags {
  readonly port?: number;
  readonly all?: boolean;
  readonly json?: boolean;
}

export async function stop(flags: StopFlags): Promise<void> {
  const chosen = choose(livingPools(poolsFolder(process.env)), flags);
  for (const record of chosen) {
    if (await stopRecordedPool(record)) continue;
    fail(
      "TIMEOUT",
      "pool stop",
      record.processes.map(({ pid }) => pid),
      "processes of the pool live on, even after SIGKILL",
      "They belong to another user, or hang in the kernel: look at them with ps.",
    );
  }
  // What a keeper that was killed could not remove itself goes here.
  livingPools(poolsFolder(process.env));
  const ports = chosen.map(({ port }) => port);
  if (flags.json === true) process.stdout.write(`${JSON.stringify({ stopped: ports })}\n`);
  else
    process.stderr.write(
      `stopped: ${ports.map((port) => `the pool of master port ${port}`).join(", ") || "nothing was running"}\n`,
    );
}

function choose(pools: readonly PoolRecord[], flags: StopFlags): readonly PoolRecord[] {
  const ports = pools.map(({ port }) => port).join(", ");
  if (flags.port !== undefined) {
    const found = pools.filter(({ port }) => port === flags.port);
    if (found.length > 0) return found;
    fail(
      "INVALID_VALUE",
      "--port",
      flags.port,
      "no pool of this machine has this port",
      ports === "" ? "None runs." : `Running: ${ports}.`,
    );
  }
  if (pools.length <= 1 || flags.all === true) return pools;
  return fail(
    "MISSING",
    "--port",
    undefined,
    "several pools run",
    `Give --all, or --port with one of ${ports}.`,
  );
}
