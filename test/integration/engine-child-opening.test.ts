/**
 * Goal: a runtime that stops while the engine's process still opens its engine leaves no process behind, however long that would take.
 * Method: a runtime over the real store in a child, whose master's address leads to a server that takes connections and says nothing.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { EmbeddedLoop } from "./support/embedded.ts";
import { engineChild, engineChildren, isRunning } from "./support/engine-child.ts";
import { MortalPool } from "./support/mortal-pool.ts";
import { writeStore } from "./support/real-pool.ts";

/** Takes connections and says nothing. */
async function startSilent(): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

test("stopped while its child opens", { timeout: 600_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "engine-child-opening-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const { store } = await MortalPool.prepare(await startSilent());
  const loop = await EmbeddedLoop.attach(
    {
      engine: "mooncake",
      engine_process: "child",
      engine_start_timeout_ms: 0,
      pool_name: undefined,
    },
    { environment: { MOONCAKE_CONFIG_PATH: writeStore(folder, store) } },
  );
  const pid = await engineChild();
  expect(loop.runtime.engine.status().state).toBe("opening");
  const began = performance.now();
  expect(await loop.attached.stop()).toBe(0);
  await expect.poll(() => engineChildren(), { timeout: 120_000, interval: 10 }).toEqual([]);
  expect(isRunning(pid)).toBe(false);
  // Its set-up may take 110 s.
  expect(performance.now() - began).toBeLessThan(20_000);
});
