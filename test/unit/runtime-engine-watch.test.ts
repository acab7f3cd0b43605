/**
 * Goal: the runtime sees every change of its engine once, waits for it at start no longer than it should, and is loud about one
 * that will never open.
 * Method: an addon whose state and wakes the test sets.
 */
import { describe, expect, it } from "vitest";
import { EngineWatch } from "../../src/actors/runtime/engine-watch.ts";
import type { EngineStatus, NativeBinding } from "../../src/native/binding.ts";

const ERROR = { code: "UNREACHABLE", field: "master", problem: "no answer", remedy: "Start it." };
const NEVER_MS = 2 ** 30;

function world(state: EngineStatus["state"]) {
  let status: EngineStatus = {
    state,
    error: null,
    reopenings: 0,
    hungCalls: 0,
    hungOpens: 0,
    transitRefusals: 0,
    callsInFlight: 0,
  };
  let woken: (() => void) | null = null;
  const native: Partial<NativeBinding> = {
    engineState: () => status,
    wakeOpen: (_wakeId, callback) => void (woken = callback),
    wakeClose: () => void (woken = null),
  };
  const traced: unknown[] = [];
  const lines: [string, object][] = [];
  const log = (level: string) => (fields: object) => void lines.push([level, fields]);
  const watch = new EngineWatch({
    native: native as NativeBinding,
    engineId: 1,
    wakeId: 2,
    trace: { record: (event, _slot, _generation, ...words) => void traced.push([event, ...words]) },
    log: { debug: log("debug"), info: log("info"), warn: log("warn"), error: log("error") },
  });
  return {
    watch,
    traced,
    lines,
    isWatching: () => woken !== null,
    become: (next: Partial<EngineStatus>) => {
      status = { ...status, ...next };
      woken?.();
    },
  };
}

describe("EngineWatch", () => {
  it("does not wait for an engine that is open", async () => {
    const { watch, traced, lines } = world("open");
    await watch.settle(NEVER_MS);
    expect(traced).toEqual([["engineOpened", 0, -1]]);
    expect(lines).toEqual([]);
  });

  it("waits for one that is on its way, through failures that pass", async () => {
    const { watch, become, lines, traced } = world("opening");
    const settled = watch.settle(NEVER_MS);
    become({ state: "down", error: ERROR });
    become({ state: "open" });
    await settled;
    expect(traced.map((event) => (event as unknown[])[0])).toEqual(["engineLost", "engineOpened"]);
    expect(lines.map(([level]) => level)).toEqual(["warn", "info"]);
  });

  it("goes on without it after its time", async () => {
    const { watch, lines } = world("opening");
    await watch.settle(1);
    expect(lines).toMatchObject([["warn", { state: "opening", timeoutMs: 1 }]]);
  });

  it("is loud about one that will never open", async () => {
    const { watch, become } = world("opening");
    const settled = watch.settle(NEVER_MS);
    become({ state: "failed", error: { ...ERROR, code: "CONFIGURATION" } });
    await expect(settled).rejects.toMatchObject({ field: "master", remedy: "Start it." });
    await expect(settled).rejects.toThrow(/no answer/);
  });

  it("tells a loss that was over before anyone looked, once", () => {
    const { watch, become, traced } = world("open");
    const told: string[] = [];
    const forget = watch.onChange(({ state, reopenings }) => told.push(`${state} ${reopenings}`));
    become({ reopenings: 1, error: ERROR });
    become({});
    forget();
    become({ reopenings: 2 });
    expect(told).toEqual(["open 1"]);
    expect(traced).toEqual([
      ["engineOpened", 0, -1],
      ["engineOpened", 1, -1],
      ["engineOpened", 2, -1],
    ]);
  });

  it("ends who waits when it is closed", async () => {
    const { watch, isWatching, lines } = world("opening");
    const settled = watch.settle(NEVER_MS);
    watch.close();
    watch.close();
    await settled;
    expect(isWatching()).toBe(false);
    expect(watch.status().state).toBe("closed");
    expect(lines).toEqual([]);
  });
});
