/**
 * Goal: the scheduler side decides what vLLM's decides, step for step. Method: each trace of vLLM's real scheduler is
 * replayed through the hooks on real tables; answers of the lookup, ends of saves and loads come from the trace. Compared
 * are every matched-token result, every save (tokens, start, blocks, store job id), every load (local and pool tokens,
 * blocks), and the pinned blocks after every call. Our own limits are set to vLLM's behaviour (an answer is used once, a
 * failed load may be tried again, far more blocks than quarantine minds): their defaults have tests of their own.
 */
import { describe, expect, test } from "vitest";
import { readVectors } from "./vectors.ts";
import { replay } from "./scheduler-trace-driver.ts";
import type { SchedulerTrace } from "./scheduler-trace-driver.ts";

const { traces } = readVectors<{ traces: SchedulerTrace[] }>("scheduler_traces");

describe("vLLM's scheduler traces", () => {
  test("there are 32 of them", () => {
    expect(traces.length).toBe(32);
  });
  test.each(traces.map((trace, index) => [index, JSON.stringify(trace.config), trace] as const))(
    "trace %i %s",
    (_index, _config, trace) => {
      const compared = replay(trace);
      expect(compared.differences).toEqual([]);
      expect(compared.calls).toBe(trace.calls.length);
      expect(compared.saves).toBe(compared.savesWanted);
    },
  );

  test("a changed trace is noticed (control)", () => {
    const text = JSON.stringify(traces[2]);
    for (const [from, to] of [
      ['"token_len_chunk":64', '"token_len_chunk":48'],
      ['"result":[80,true]', '"result":[64,true]'],
      ['"store_job_id":3', '"store_job_id":4'],
      ['"pinned_after":{"', '"pinned_after":{"9'],
    ] as const) {
      expect(text).toContain(from);
      const changed = JSON.parse(text.replace(from, to)) as SchedulerTrace;
      expect(replay(changed).differences.length).toBeGreaterThan(0);
    }
  });
});
