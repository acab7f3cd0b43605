import { closeSync, openSync } from "node:fs";
import { MooncakeKvError } from "../errors.ts";
import type { RequestIdOf } from "../trace/chrome-events.ts";
import {
  type ChromeTraceSummary,
  type ChromeTraceWriter,
  createChromeTraceFile,
} from "../trace/chrome.ts";
import { TraceCollector } from "../trace/collector.ts";
import { CounterBlock } from "../trace/counters.ts";
import { ACTOR_FRONT_END } from "../actors/messages.ts";
import type { RuntimePlan } from "../actors/plan.ts";
import type { Log } from "../actors/step.ts";

const DRAIN_PERIOD_MS = 20;
const WINDOW_RECORDS = 65_536;

/** Throws INVALID_VALUE for a path that cannot be written; else the file exists and is empty. */
export function checkTraceFile(path: string): void {
  try {
    closeSync(openSync(path, "w"));
  } catch (cause) {
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "trace",
      value: path,
      problem: `this file cannot be written: ${cause instanceof Error ? cause.message : String(cause)}`,
      remedy: "Give a file in a folder that exists and that this user may write.",
      cause,
    });
  }
}

/** Drains the trace rings of a runtime and writes them to a Chrome trace file, from the start to `close`. */
export class ServingTrace {
  readonly collector: TraceCollector;
  readonly #file: ChromeTraceWriter;
  readonly #timer: NodeJS.Timeout;

  constructor(plan: RuntimePlan, path: string, requestId: RequestIdOf, log: Log) {
    this.collector = new TraceCollector({
      rings: (plan.traceRings ?? []).map((ring, lane) => ({ lane, ring })),
      windowRecords: WINDOW_RECORDS,
      counters: new CounterBlock(plan.counters, ACTOR_FRONT_END),
      onSubscriberError: (error) =>
        log.error({ error: String(error) }, "a trace subscriber failed and was taken off"),
    });
    this.#file = createChromeTraceFile(path, { processName: "mooncake-kv", requestId });
    this.collector.subscribe(this.#file);
    this.#timer = setInterval(() => this.collector.drain(), DRAIN_PERIOD_MS);
    this.#timer.unref();
  }

  /** Takes what is left and closes the file. Throws when the file could not be written. */
  async close(): Promise<ChromeTraceSummary> {
    clearInterval(this.#timer);
    this.collector.drain();
    return await this.#file.close();
  }
}
