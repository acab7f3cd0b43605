/**
 * Goal: in twenty minutes with everything that may happen to a real pool at once no member uses a wrong byte, every value that a client
 * has replaced is found by who reads it, and nothing is left in a member's hands at the end.
 * Method: two serving loops in processes of their own compare every byte that they load with what its tokens say. Meanwhile owners are
 * killed, one loop resets the pool by force, the other is stopped amid loads, and the wheel's client replaces values by others of the
 * right size and removes all by force. Choices are drawn from a seed; what meets what, the machine says. The summary is printed.
 */
import { afterEach, expect, test } from "vitest";
import { PoolSoak } from "../integration/support/pool-soak.ts";

const DURATION_MS = 20 * 60_000;
const SEED = 2;
const TEST_TIMEOUT_MS = DURATION_MS + 600_000;

let soak: PoolSoak | undefined;
afterEach(async () => {
  await soak?.stop();
});

test(
  "twenty minutes with everything that may happen",
  async () => {
    soak = await PoolSoak.start({
      seed: SEED,
      durationMs: DURATION_MS,
      extra: { pool_verify: "when_present" },
      everyMs: { ownerDies: 25_000, reset: 20_000, replace: 200 },
    });
    const summary = await soak.run();
    process.stdout.write(`soak: ${JSON.stringify(summary)}\n`);
    expect(summary).toMatchObject({
      wrong: 0,
      lastFound: summary.lastReplaced,
      gauges: [{}, {}],
      exits: [0, 0],
    });
    expect(summary.replaced).toBeGreaterThan(0);
    expect(summary.tokensRefused).toBeGreaterThan(0);
    expect(summary.ownerDeaths).toBeGreaterThan(0);
    expect(summary.resets["ACKNOWLEDGED"]).toBeGreaterThan(0);
  },
  TEST_TIMEOUT_MS,
);
