/**
 * Goal: no order of deaths makes native threads touch freed memory: workers are terminated with batches in flight, while others
 * wake them; the memory they registered goes with them; the process exits while everything runs.
 * Method: each scenario (native-child.mjs) is a process of its own, which must end by itself with exit code 0. A crash that
 * needs an order of events that did not occur in this run is not seen.
 */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const child = fileURLToPath(new URL("./native-child.mjs", import.meta.url));

test.each(["ownMemory", "mainMemory", "pinnedMemory", "exit", "collected"])(
  "%s",
  { timeout: 600_000 },
  async (scenario) => {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["--expose-gc", child, scenario],
      { timeout: 120_000 },
    );
    expect(stdout).toBe("survived\n");
  },
);
