/**
 * Goal: whatever goes on in a real pool, no member uses a wrong byte, and nothing is left in its hands: owners die, a member resets the
 * pool by force, a client of the wheel's own replaces values and removes by force, a reader is stopped amid its loads.
 * Method: the short form of test/full/real-pool-soak.test.ts; every byte that is loaded is compared with what its tokens say.
 */
import { afterEach, expect, test } from "vitest";
import { PoolSoak } from "./support/pool-soak.ts";

const DURATION_MS = 25_000;
const SEED = 1;
const TEST_TIMEOUT_MS = 240_000;

let soak: PoolSoak | undefined;
afterEach(async () => {
  await soak?.stop();
});

test(
  "half a minute with everything that may happen",
  async () => {
    soak = await PoolSoak.start({
      seed: SEED,
      durationMs: DURATION_MS,
      // With "when_present" a value that somebody stored without a checksum is used: twenty minutes of that are in test/full.
      extra: { pool_verify: "require" },
      everyMs: { ownerDies: 10_000, reset: 4_000, replace: 150 },
    });
    const summary = await soak.run();
    process.stdout.write(`soak: ${JSON.stringify(summary)}\n`);
    expect(summary).toMatchObject({
      wrong: 0,
      lastFound: summary.lastReplaced,
      gauges: [{}, {}],
      exits: [0, 0],
    });
    expect(summary.answers).toBeGreaterThan(0);
    expect(summary.tokensRefused).toBeGreaterThan(0);
  },
  TEST_TIMEOUT_MS,
);
