/**
 * Goal: `serve --trace FILE` writes a Chrome trace with one lane an actor, whose slices begin and end, and which shows requests,
 * steps, lookups, loads and saves.
 * Method: the command line as a child; one prompt computed and saved, then loaded after the local cache was dropped.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { ACTOR_NAMES } from "../../src/actors/messages.ts";
import { startServe } from "./support/child.ts";

interface TraceEvent {
  readonly name: string;
  readonly ph: string;
  readonly tid: number;
  readonly ts: number;
  readonly id?: string;
  readonly cat?: string;
  readonly args?: Readonly<Record<string, unknown>>;
}

let folder: string;
let events: readonly TraceEvent[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "cli-trace-"));
  const file = join(folder, "trace.json");
  const { child, url } = await startServe(["--trace", file, "--debug-routes"]);
  const post = async (path: string, body: object): Promise<Answer> => {
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    expect(response.status).toBe(200);
    return (await response.json()) as Answer;
  };
  const asked = { model: "tiny", prompt: "y".repeat(300), max_tokens: 4, x_mooncake_kv: true };
  await post("/v1/completions", asked);
  // A block that is still being saved is not dropped, so drop until the pool alone has the prefix.
  await vi.waitFor(
    async () => {
      await post("/debug/drop_local_cache", {});
      expect((await post("/v1/completions", asked)).x_mooncake_kv.pool_tokens).toBe(288);
    },
    { timeout: 120_000 },
  );
  child.process.kill("SIGTERM");
  expect(await child.exit).toEqual({ code: 0, signal: null });
  events = (JSON.parse(readFileSync(file, "utf8")) as { traceEvents: TraceEvent[] }).traceEvents;
});
afterAll(() => rmSync(folder, { recursive: true }));

interface Answer {
  readonly x_mooncake_kv: { readonly pool_tokens: number };
}

test("one named lane an actor", () => {
  const lanes = events
    .filter(({ name, ph }) => ph === "M" && name === "thread_name")
    .map(({ args }) => args?.["name"]);
  expect(lanes).toEqual([...ACTOR_NAMES]);
});

test("every slice begins and ends, in this order", () => {
  const open = new Map<string, number[]>();
  for (const event of events) {
    const key = `${event.cat}/${event.id}/${event.name}/${event.tid}`;
    if (event.ph === "b") open.set(key, [...(open.get(key) ?? []), event.ts]);
    if (event.ph !== "e") continue;
    const began = open.get(key)?.shift();
    expect(began, key).toBeDefined();
    expect(event.ts).toBeGreaterThanOrEqual(began ?? Infinity);
  }
  expect([...open.values()].flat()).toEqual([]);
});

test("no slice was cut off and no event lost", () => {
  expect(events.filter(({ args }) => args !== undefined && "unfinished" in args)).toEqual([]);
  expect(events.filter(({ args }) => args !== undefined && "beginMissing" in args)).toEqual([]);
  for (const { name, args } of events)
    if (name === "lost trace events") expect(Object.values(args ?? {})).toEqual([0]);
});

test.each([
  ["request", "scheduler"],
  ["step", "scheduler"],
  ["lookup", "scheduler"],
  ["model", "model"],
  ["hash", "lookup"],
  ["exists batch", "lookup"],
  ["load", "loader"],
  ["get batch", "loader"],
  ["save", "saver"],
  ["put batch", "saver"],
])("there are %s slices on the %s lane", (name, actor) => {
  const tid = events.find(({ ph, args }) => ph === "M" && args?.["name"] === actor)?.tid;
  expect(tid).toBeDefined();
  expect(
    events.filter((event) => event.name === name && event.tid === tid && "bX".includes(event.ph)),
  ).not.toEqual([]);
});
