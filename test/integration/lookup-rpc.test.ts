/**
 * Goal: by configuration alone a vLLM scheduler asks this process what its pool holds, and this process asks another one: hits are
 * those of the pool, failures are no misses, and deaths of either end pass.
 * Method: whole runtimes with addon and local engine, threads that never turn their event loop while they ask; vLLM's side is
 * libzmq's REQ and REP sockets with vLLM's frames; one client runs in a process of its own.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Reply, Request } from "zeromq";
import { recordingName } from "../../src/actors/hosts/recording/start-recording.ts";
import { replayRecording } from "../../src/actors/hosts/replay/replay.ts";
import { ACTOR_LOOKUP } from "../../src/actors/messages.ts";
import { encodeLookupReply, encodeLookupRequest } from "../../src/connector/lookup-wire.ts";
import { hashBlocks } from "../../src/keys/block-hash.ts";
import { noneHash } from "../../src/keys/none-hash.ts";
import { COUNTERS } from "../../src/trace/counters.ts";
import { LOOKUP_RPC_OUTCOMES } from "../../src/trace/families.ts";
import { packageRoot } from "../../src/worker-entry.ts";
import { BLOCK, EmbeddedLoop, KV_CACHE, tokens } from "./support/embedded.ts";
import { counted } from "./support/gauges.ts";
import { generate, promptOf } from "./support/generate.ts";
import { freshPoolName, startServing } from "./support/serving.ts";

let folder = "";
let loops: EmbeddedLoop[] = [];
const closing: (() => void)[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "lookup-rpc-"));
});
afterEach(async () => {
  for (const close of closing.splice(0)) close();
  for (const loop of loops) expect(await loop.attached.stop()).toBe(0);
  loops = [];
  // Whoever opened a socket took its file away.
  const left = readdirSync(folder);
  rmSync(folder, { recursive: true });
  expect(left).toEqual([]);
});

async function attach(extra: Readonly<Record<string, unknown>>): Promise<EmbeddedLoop> {
  const loop = await EmbeddedLoop.attach(
    { lookup_rpc_port: 7, ...extra },
    { environment: { VLLM_RPC_BASE_PATH: folder } },
  );
  loops.push(loop);
  return loop;
}

function socketPath(): string {
  const [name] = readdirSync(folder);
  expect(name).toMatch(/^lookup_rpc_port_7_host_.+_dp_rank0$/);
  return join(folder, name ?? "");
}

/** vLLM's scheduler: REQ, one question at a time. */
class Scheduler {
  readonly #socket = new Request({ linger: 0, receiveTimeout: 10_000 });
  constructor() {
    this.#socket.connect(`ipc://${socketPath()}`);
    closing.push(() => this.#socket.close());
  }
  async lookup(prompt: readonly number[]): Promise<string> {
    const none = noneHash(null, "sha256");
    const hashes = hashBlocks({ tokens: prompt, blockSize: BLOCK }, none, "sha256");
    const hashBytes = hashes.byteLength === 0 ? 0 : 32;
    return this.send(encodeLookupRequest({ tokens: prompt.length, hashBytes, hashes }));
  }
  async send(frames: readonly (Uint8Array | string)[]): Promise<string> {
    await this.#socket.send(frames.map((frame) => Buffer.from(frame)));
    return Buffer.concat(await this.#socket.receive()).toString("hex");
  }
}
const reply = (hitTokens: number): string =>
  Buffer.from(
    encodeLookupReply({ hitTokens, tails: hitTokens > 0 ? [[0, hitTokens]] : [] }),
  ).toString("hex");
const nothing = (): void => undefined;

describe("the server", () => {
  test("tells a vLLM scheduler what the pool holds, and empties it when it is told to", async () => {
    const loop = await attach({});
    loop.computeAndSave("first", tokens(60, 1), nothing);
    const scheduler = new Scheduler();
    expect(await scheduler.lookup(tokens(60, 1))).toBe(reply(48));
    // The whole prompt is there, and its last token is left to compute.
    expect(await scheduler.lookup(tokens(48, 1))).toBe(reply(32));
    expect(await scheduler.lookup(tokens(60, 2))).toBe(reply(0));
    expect(await scheduler.lookup(tokens(5, 1))).toBe(reply(0));
    expect(await scheduler.send(["reset"])).toBe("01");
    expect(await scheduler.lookup(tokens(60, 1))).toBe(reply(0));
    expect(await scheduler.send(["what"])).toBe("00");
    const counts = LOOKUP_RPC_OUTCOMES.map((outcome, index) => [
      outcome,
      counted(loop.runtime, COUNTERS.lookupRpc + index),
    ]);
    const expected = { hit: 2, miss: 3, reset: 1, refused: 1 };
    expect(Object.fromEntries(counts.filter(([, count]) => count !== 0))).toEqual(expected);
  });

  test("answers on after the death of its thread; questions do not touch requests of its own", async () => {
    const loop = await attach({});
    loop.computeAndSave("first", tokens(60, 1), nothing);
    await loop.runtime.supervisor.kill(ACTOR_LOOKUP);
    await vi.waitUntil(() => loop.runtime.supervisor.running(ACTOR_LOOKUP), 60_000);
    await vi.waitUntil(() => readdirSync(folder).length === 1, 60_000);
    const scheduler = new Scheduler();
    expect(await scheduler.lookup(tokens(60, 1))).toBe(reply(48));
    loop.attached.connector.scheduler.addRequest("second", tokens(60, 1));
    expect(loop.match("second")).toEqual([48, true]);
    loop.attached.connector.scheduler.requestFinished("second");
    loop.stepUntil(() => loop.attached.connector.idle());
  });

  test("a second server at the same socket is refused, and so is a folder that is not there", async () => {
    await attach({});
    await expect(attach({})).rejects.toMatchObject({
      code: "INVALID_VALUE",
      field: "kv_connector_extra_config.lookup_rpc_port",
    });
    const environment = { VLLM_RPC_BASE_PATH: join(folder, "none") };
    await expect(
      EmbeddedLoop.attach({ lookup_rpc_role: "client" }, { environment }),
    ).rejects.toMatchObject({ code: "INVALID_VALUE", field: "VLLM_RPC_BASE_PATH" });
  });
});

describe("the client", () => {
  test.each([true, false])(
    "lookup_async %s: another runtime answers, the pool loads",
    async (lookupAsync) => {
      const pool = freshPoolName();
      const server = await attach({ pool_name: pool });
      server.computeAndSave("first", tokens(60, 1), nothing);
      const client = await attach({
        pool_name: pool,
        lookup_rpc_role: "client",
        lookup_async: lookupAsync,
      });
      const { scheduler } = client.attached.connector;
      scheduler.addRequest("hit", tokens(60, 1));
      expect(client.match("hit")).toEqual([48, true]);
      scheduler.updateStateAfterAlloc("hit", [client.blocks(4)], 48);
      const done = client.stepUntil(({ finishedRecving }) => finishedRecving.includes("hit"));
      expect(done.failedLoads).toEqual([]);
      expect(scheduler.outcome("hit")).toBe("HIT");
      scheduler.addRequest("miss", tokens(60, 2));
      expect(client.match("miss")).toEqual([0, false]);
      expect(scheduler.outcome("miss")).toBe("MISS");
      for (const id of ["hit", "miss"]) scheduler.requestFinished(id);
      client.stepUntil(() => client.attached.connector.idle());
    },
  );

  test("a server that is away or dies is a failure and no miss; one that comes later is found", async () => {
    const pool = freshPoolName();
    const client = await attach({
      pool_name: pool,
      lookup_rpc_role: "client",
      lookup_timeout_ms: 5000,
    });
    const { scheduler } = client.attached.connector;
    scheduler.addRequest("away", tokens(60, 1));
    expect(client.match("away")).toEqual([0, false]);
    expect(scheduler.outcome("away")).toBe("ENGINE_DOWN");
    const server = await attach({ pool_name: pool });
    server.computeAndSave("first", tokens(60, 1), nothing);
    scheduler.addRequest("there", tokens(60, 1));
    expect(client.match("there")).toEqual([48, true]);
    // The client's own thread dies, too: its successor asks again.
    await client.runtime.supervisor.kill(ACTOR_LOOKUP);
    await vi.waitUntil(() => client.runtime.supervisor.running(ACTOR_LOOKUP), 60_000);
    scheduler.addRequest("after", tokens(60, 1));
    expect(client.match("after")).toEqual([48, true]);
    await server.runtime.supervisor.kill(ACTOR_LOOKUP);
    await vi.waitUntil(() => server.runtime.supervisor.running(ACTOR_LOOKUP), 60_000);
    await vi.waitUntil(() => readdirSync(folder).length === 1, 60_000);
    scheduler.addRequest("again", tokens(60, 1));
    expect(client.match("again")).toEqual([48, true]);
    for (const id of ["away", "there", "after", "again"]) scheduler.requestFinished(id);
    client.stepUntil(() => client.attached.connector.idle());
  });

  test("an answer that fits no block of this model is a failure", async () => {
    const socket = new Reply({ linger: 0 });
    closing.push(() => socket.close());
    const client = await attach({ lookup_rpc_role: "client", lookup_async: true });
    await socket.bind(`ipc://${join(folder, socketName(7))}`);
    const answers = [17, 64, 32].map((hitTokens) => encodeLookupReply({ hitTokens, tails: [] }));
    const answering = (async () => {
      for await (const _ of socket) await socket.send(Buffer.from(answers.shift() ?? []));
    })();
    const { scheduler } = client.attached.connector;
    const outcomes: string[] = [];
    for (const id of ["between", "beyond", "good"]) {
      scheduler.addRequest(id, tokens(60, 1));
      await vi.waitUntil(() => {
        const [found] = scheduler.getNumNewMatchedTokens(id, 0);
        if (found === null) client.step();
        return found !== null;
      }, 60_000);
      outcomes.push(scheduler.outcome(id));
      scheduler.requestFinished(id);
    }
    expect(outcomes).toEqual(["ENGINE_ERROR", "ENGINE_ERROR", "HIT"]);
    client.stepUntil(() => client.attached.connector.idle());
    socket.close();
    await answering;
    // libzmq leaves the file of a socket lying.
    rmSync(socketPath(), { force: true });
  });

  test("a recording holds questions and answers, and replays without either end", async () => {
    const port = `replay-${process.pid}`;
    const path = join(tmpdir(), socketName(port));
    const socket = new Reply({ linger: 0 });
    closing.push(() => socket.close());
    await socket.bind(`ipc://${path}`);
    const answering = (async () => {
      for await (const _ of socket)
        await socket.send(Buffer.from(encodeLookupReply({ hitTokens: 0, tails: [] })));
    })();
    const extra = { lookup_rpc_port: port, lookup_rpc_role: "client" };
    const { application } = await startServing(extra, { recordFolder: folder });
    await generate(application, promptOf(application, 100));
    await generate(application, promptOf(application, 90, 7));
    await application.stop();
    socket.close();
    await answering;
    rmSync(path, { force: true });
    const recording = join(folder, recordingName(ACTOR_LOOKUP, 1));
    expect(readFileSync(recording, "utf8").match(/"askRemote"/g)).toHaveLength(2);
    const report = await replayRecording(recording);
    expect(report).toMatchObject({ complete: true, divergence: null });
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
  });

  test("asks from a process of its own", async () => {
    const server = await attach({});
    server.computeAndSave("first", tokens(60, 1), nothing);
    const script = join(packageRoot(), "test/integration/support/lookup-client.mjs");
    const question = JSON.stringify({ kvCache: KV_CACHE, prompts: [tokens(60, 1), tokens(60, 2)] });
    const { stdout } = await promisify(execFile)(process.execPath, [script, question], {
      env: { ...process.env, VLLM_RPC_BASE_PATH: folder },
    });
    expect(JSON.parse(stdout)).toEqual([
      [48, "HIT"],
      [0, "MISS"],
    ]);
  });
});

/** Where a client of this test's settings looks for its server. */
function socketName(port: number | string): string {
  return `lookup_rpc_port_${port}_host_${hostname()}_dp_rank0`;
}
