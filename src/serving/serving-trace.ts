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
