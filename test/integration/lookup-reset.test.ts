/**
 * Goal: a reset over the lookup socket is the runtime's own: this member's saves and lookups pause, its identity is back afterwards and
 * AllBlocksCleared is told once; one that fails, times out or meets the runtime's stop is answered as failed, and nothing hangs.
 * Method: whole runtimes with addon and local engine, asked as vLLM's scheduler asks, over libzmq's REQ. A save that does not end is
 * a record of one in the shared tables: the reset looks there, and nobody else does.
 */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Request } from "zeromq";
import { CONTROL_MEMBERSHIP_WORD } from "../../src/actors/plan.ts";
import {
  JOB_ANSWERED_WORD,
  JOB_KIND,
  JOB_KIND_SAVE,
  JOB_LIVE_WORD,
  JOB_RANKS,
} from "../../src/blocks/layout.ts";
import { MEMBERSHIP_OPEN, MEMBERSHIP_PAUSED } from "../../src/connector/membership.ts";
import type { Runtime } from "../../src/actors/runtime/runtime.ts";
import { COUNTERS } from "../../src/trace/counters.ts";
import { LOOKUP_RPC_OUTCOMES } from "../../src/trace/families.ts";
import { EmbeddedLoop, tokens } from "./support/embedded.ts";
import { counted } from "./support/gauges.ts";

const KEY = "model@mooncake-kv-identity";
const PROMPT = tokens(64, 1);
let folder = "";
let loop: EmbeddedLoop;
const sockets: Request[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "lookup-reset-"));
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.close();
  await loop.attached.stop();
  rmSync(folder, { recursive: true });
});

async function attach(extra: Readonly<Record<string, unknown>> = {}): Promise<void> {
  loop = await EmbeddedLoop.attach(
    { lookup_rpc_port: 7, ...extra },
    {
      environment: { VLLM_RPC_BASE_PATH: folder },
      kvEventsConfig: { enable_kv_cache_events: true, publisher: "null" },
    },
  );
}
/** "01" or "00", as vLLM's LookupKeyServer answers. */
async function reset(): Promise<string> {
  const socket = new Request({ linger: 0, receiveTimeout: 30_000 });
  sockets.push(socket);
  socket.connect(`ipc://${join(folder, readdirSync(folder)[0] ?? "")}`);
  await socket.send("reset");
  return Buffer.concat(await socket.receive()).toString("hex");
}
function membershipWord({ plan }: Runtime): number {
  return Atomics.load(new Int32Array(plan.control), CONTROL_MEMBERSHIP_WORD);
}
function keys({ runtime }: EmbeddedLoop): string[] {
  return runtime.native.engineKeys(runtime.engineId, "", 1000).toSorted();
}
/** A save that some rank has yet to report, from now until the returned function is called. */
function saveInFlight({ runtime }: EmbeddedLoop): () => void {
  const { tables } = runtime.ends;
  const at = tables.job(tables.dimensions.jobSlots - 1);
  tables.jobs[at + JOB_KIND] = JOB_KIND_SAVE;
  tables.jobs[at + JOB_RANKS] = 1;
  Atomics.store(tables.jobs, at + JOB_ANSWERED_WORD, 0);
  Atomics.store(tables.jobs, at + JOB_LIVE_WORD, 1);
  return () => void Atomics.store(tables.jobs, at + JOB_LIVE_WORD, 0);
}
const paused = (): Promise<boolean> =>
  vi.waitUntil(() => membershipWord(loop.runtime) === MEMBERSHIP_PAUSED, 60_000);

test("this member's saves and lookups pause, its identity is back, AllBlocksCleared is told once", async () => {
  await attach();
  loop.computeAndSave("old", PROMPT, () => undefined);
  expect(keys(loop)).toHaveLength(5);
  expect(loop.attached.connector.scheduler.takeEvents().map(({ type }) => type)).toEqual([
    "BlockStored",
    "BlockStored",
    "BlockStored",
    "BlockStored",
  ]);
  const saved = saveInFlight(loop);
  const answer = reset();
  await paused();

  const { scheduler } = loop.attached.connector;
  scheduler.addRequest("amid", PROMPT);
  expect(loop.match("amid")).toEqual([0, false]);
  expect(scheduler.outcome("amid")).toBe("CANCELLED");
  const blocks = loop.blocks(4);
  scheduler.updateStateAfterAlloc("amid", [blocks], 0);
  loop.step([{ id: "amid", numComputedTokens: 0, newBlockIds: null, numScheduledTokens: 64 }]);
  expect(loop.pinned()).toEqual([]);
  expect(keys(loop)).toHaveLength(5);
  expect(await loop.runtime.resetPool({})).toMatchObject({ reason: "BUSY" });

  saved();
  expect(await answer).toBe("01");
  expect(keys(loop)).toEqual([KEY]);
  expect(membershipWord(loop.runtime)).toBe(MEMBERSHIP_OPEN);
  expect(loop.attached.membership().membership).toBe("open");
  expect(scheduler.takeEvents()).toEqual([{ type: "AllBlocksCleared" }]);
  expect(scheduler.takeEvents()).toEqual([]);

  // What was held back is saved now.
  await vi.waitUntil(() => {
    loop.step([{ id: "amid", numComputedTokens: 64, newBlockIds: null, numScheduledTokens: 0 }]);
    return keys(loop).length === 5;
  }, 60_000);
  scheduler.requestFinished("amid", [blocks]);
  loop.stepUntil(() => loop.attached.connector.idle());
});

test("two at the same time are done one after the other", async () => {
  await attach();
  loop.computeAndSave("old", PROMPT, () => undefined);
  expect(await Promise.all([reset(), reset()])).toEqual(["01", "01"]);
  expect(keys(loop)).toEqual([KEY]);
  const done = COUNTERS.lookupRpc + LOOKUP_RPC_OUTCOMES.indexOf("reset");
  expect(counted(loop.runtime, done)).toBe(2);
});

test("one that does not get done in time is answered as failed; the pause is over and the pool as it was", async () => {
  await attach({ save_timeout_ms: 300 });
  loop.computeAndSave("old", PROMPT, () => undefined);
  loop.attached.connector.scheduler.takeEvents();
  const saved = saveInFlight(loop);
  expect(await reset()).toBe("00");
  expect(keys(loop)).toHaveLength(5);
  expect(membershipWord(loop.runtime)).toBe(MEMBERSHIP_OPEN);
  expect(loop.attached.connector.scheduler.takeEvents()).toEqual([]);
  const failed = COUNTERS.lookupRpc + LOOKUP_RPC_OUTCOMES.indexOf("reset_failed");
  expect(counted(loop.runtime, failed)).toBe(1);
  saved();
  expect(await reset()).toBe("01");
});

test("a stop amid a reset does not wait for it", async () => {
  await attach({ save_timeout_ms: 600_000 });
  saveInFlight(loop);
  const answer = reset().then(
    (text) => text,
    () => "no answer",
  );
  await paused();
  const started = performance.now();
  await loop.attached.stop();
  // Seconds where the reset might take ten minutes.
  expect(performance.now() - started).toBeLessThan(30_000);
  // A peer whose connection is cut is told nothing: it must not be told that the pool is empty.
  const told = await Promise.race([answer, sleep(200, "no answer")]);
  expect(["00", "no answer"]).toContain(told);
});
