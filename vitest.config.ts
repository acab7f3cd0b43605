import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Processes, because the addon and the model keep threads that outlive a test file's own code.
    pool: "forks",
    maxWorkers: 2,
    // Generous: they end what hangs, and must never decide between a slow machine and a fast one.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    teardownTimeout: 20_000,
  },
});
