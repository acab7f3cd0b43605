/**
 * Goal: a call that the engine never answers ends at its time limit with a typed answer, and a late answer changes nothing.
 * Method: an addon that keeps the callbacks, and a clock that the test turns.
 */
import { describe, expect, it } from "vitest";
import type { EngineCallReply } from "../../src/native/binding.ts";
import { EngineCalls } from "../../src/store/engine-calls.ts";
import { EngineCode } from "../../src/store/engine.ts";

const REPLY: EngineCallReply = {
  status: 0,
  count: 0,
  kept: 0,
  value: new Uint8Array(0),
  keys: [],
  text: "",
};

function world() {
  const replies: ((reply: EngineCallReply) => void)[] = [];
  const timers = new Map<number, () => void>();
  const calls = new EngineCalls({
    native: { engineCall: (_engineId, _request, callback) => void replies.push(callback) },
    engineId: 1,
    after: (delayMs, action) => {
      timers.set(delayMs, action);
      return () => timers.delete(delayMs);
    },
  });
  return { calls, replies, timers };
}

describe("EngineCalls", () => {
  it("ends a call that is not answered in time", async () => {
    const { calls, replies, timers } = world();
    const asked = calls.getValue("k", 250);
    timers.get(250)?.();
    const answer = await asked;
    expect(answer).toEqual({
      ok: false,
      code: EngineCode.TIMED_OUT,
      text: "getValue was not answered within 250 ms",
    });
    replies[0]?.({ ...REPLY, value: new Uint8Array([1]) });
    expect(await asked).toBe(answer);
  });

  it("keeps no timer of a call that was answered", async () => {
    const { calls, replies, timers } = world();
    const asked = calls.removePrefix("p", 250);
    expect(timers.size).toBe(1);
    replies[0]?.({ ...REPLY, count: 7 });
    expect(await asked).toEqual({ ok: true, value: 7 });
    expect(timers.size).toBe(0);
  });

  it("keeps no timer of a call that was refused", async () => {
    const { timers } = world();
    const calls = new EngineCalls({
      native: {
        engineCall: () => {
          throw new Error("no such engine");
        },
      },
      engineId: 1,
      after: (delayMs, action) => {
        timers.set(delayMs, action);
        return () => timers.delete(delayMs);
      },
    });
    await expect(calls.health(1)).rejects.toThrow("no such engine");
    expect(timers.size).toBe(0);
  });

  it("tells a failure of the engine from an absent key", async () => {
    const { calls, replies } = world();
    const absent = calls.getValue("k", 1);
    replies[0]?.({ ...REPLY, status: EngineCode.OBJECT_NOT_FOUND });
    expect(await absent).toEqual({ ok: true, value: null });
    const down = calls.getValue("k", 1);
    replies[1]?.({ ...REPLY, status: EngineCode.ENGINE_DOWN, text: "it is gone" });
    expect(await down).toEqual({ ok: false, code: EngineCode.ENGINE_DOWN, text: "it is gone" });
  });
});
