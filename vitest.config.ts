import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Processes, because the addon and the model keep threads that outlive a test file's own code.
    pool: "forks",
    maxWorkers: 2,
    // Generous: they end what hangs, and must never decide between a slow machine and a fast one.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    teardownTimeout: 60_000,
    expect: { poll: { timeout: 60_000 } },
  },
});
