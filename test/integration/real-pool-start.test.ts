/**
 * Goal: a pool that is not there, or is not what its configuration says, keeps no server from starting: requests are computed, why
 * is shown, and the pool is used once it is there.
 * Method: a whole runtime whose master comes after it, and one whose address leads to a server that is none; answers are compared
 * with those of a run without a pool.
 */
import { createServer, type Server, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { MortalPool } from "./support/mortal-pool.ts";
import {
  engineStatus,
  expectComputed,
  expectEngineDown,
  expectShown,
  expectUsed,
  type PoolDeathWorld,
  startPoolDeathWorld,
  untilOpen,
} from "./support/pool-deaths.ts";

/** A start waits ten seconds for its engine unless told otherwise, and the store for a master that does not answer. */
const TEST_TIMEOUT_MS = 120_000;

let world: PoolDeathWorld;
let ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  await world.stop();
  for (const end of ends) await end();
  ends = [];
});

test.each(["in_process", "child"])(
  "the master comes after the server, whose engine runs %s",
  async (engineProcess) => {
    const pool = await MortalPool.prepare();
    world = await startPoolDeathWorld({ engine_process: engineProcess }, { pool });
    await expectEngineDown(world);
    expect(engineStatus(world).error).toMatchObject({
      code: "UNREACHABLE",
      field: "master_server_address",
      remedy: expect.stringContaining("mooncake_master"),
    });
    await pool.startMaster();
    await untilOpen(world, 0);
    await pool.startOwner();
    await expectUsed(world);
    await expectShown(world, "open");
  },
  TEST_TIMEOUT_MS,
);

/** Takes connections and says nothing. */
async function startSilent(): Promise<number> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ends.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

test(
  "the address of the master is that of a server which never answers",
  async () => {
    const pool = await MortalPool.prepare(await startSilent());
    world = await startPoolDeathWorld({ engine_start_timeout_ms: 300 }, { pool });
    const { state } = engineStatus(world);
    expect(["opening", "down"]).toContain(state);
    await expectShown(world, state);
    await expectComputed(world);
    expect(world.log.lines).toContainEqual(
      expect.objectContaining({
        level: "warn",
        text: "the storage engine is not open yet: requests are computed until it is",
        fields: expect.objectContaining({ timeoutMs: 300 }) as object,
      }),
    );
    await expectEngineDown(world);
    expect(engineStatus(world).error?.code).toBe("UNREACHABLE");
  },
  TEST_TIMEOUT_MS,
);
