/**
 * Goal: the replay of vLLM's scheduler traces (see golden-files.test.ts) notices differences of every sort that it compares.
 * Method: one value of a trace is changed.
 */
import { expect, test } from "vitest";
import { readVectors } from "./vectors.ts";
import { replay } from "./scheduler-trace-driver.ts";
import type { SchedulerTrace } from "./scheduler-trace-driver.ts";

const { traces } = readVectors<{ traces: SchedulerTrace[] }>("scheduler_traces");

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
