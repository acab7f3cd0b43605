import { fail } from "../../errors.ts";
import { poolsFolder, readPools, stopRecordedPool } from "../../pool/state.ts";
import { livingPools } from "./target.ts";
import type { PoolRecord } from "../../pool/state.ts";

interface StopFlags {
  readonly port?: number;
  readonly all?: boolean;
  readonly json?: boolean;
}

export async function stop(flags: StopFlags): Promise<void> {
  const chosen = choose(livingPools(), flags);
  for (const record of chosen) {
    const end = await stopRecordedPool(record);
    if (end === "stopped") continue;
    fail(
      end === "lives" ? "TIMEOUT" : "UNSUPPORTED",
      "pool stop",
      record.folder,
      end === "lives"
        ? "processes of the pool live on, even after SIGKILL"
        : "the pool lives, but none of its processes can be seen from here",
      end === "lives"
        ? "They belong to another user, or hang in the kernel: look at them with ps."
        : "Run it in the container or PID namespace that started the pool, and as the same user.",
    );
  }
  // What a keeper that was killed could not remove itself goes here.
  readPools(poolsFolder(process.env));
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
